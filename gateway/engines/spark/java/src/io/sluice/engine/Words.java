package io.sluice.engine;

import java.util.Locale;
import java.util.Set;

/** Word lists written as text blocks, and words as they are compared. */
final class Words {
  private Words() {}

  static Set<String> of(String text) {
    return Set.of(text.strip().split("\\s+"));
  }

  static String lower(String text) {
    return text.toLowerCase(Locale.ROOT);
  }

  /** The name of a Scala object's class without its trailing dollar sign. */
  static String withoutModuleSign(String className) {
    return className.endsWith("$") ? className.substring(0, className.length() - 1) : className;
  }
}

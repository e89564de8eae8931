package io.sluice.engine;

import java.util.regex.Pattern;

/** Takes storage addresses out of text that users will read, in time linear in its length. */
final class Scrub {
  private static final Pattern ADDRESS =
      Pattern.compile(
          "\\b[a-zA-Z][a-zA-Z0-9+.-]{0,30}+:/[^\\s,;\\])}>'\"]*+"
              + "|(?<![\\w/.])/[\\w.@=+-]++/[\\w.@=+/-]*+");

  private Scrub() {}

  static String addresses(String text) {
    return ADDRESS.matcher(text).replaceAll("(storage)");
  }
}

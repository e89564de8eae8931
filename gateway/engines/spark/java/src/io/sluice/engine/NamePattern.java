package io.sluice.engine;

import java.util.Collection;
import java.util.List;
import java.util.TreeSet;
import org.apache.hadoop.shaded.com.google.re2j.Pattern;
import org.apache.hadoop.shaded.com.google.re2j.PatternSyntaxException;

/**
 * The pattern of SHOW … LIKE, read as Spark does (`*`, `|`, else a regular expression), by a
 * matcher whose time grows with the lengths only: Spark's own tries all ways.
 */
final class NamePattern {
  static final int LONGEST = 512;

  private NamePattern() {}

  /** The names that it matches whole, sorted; what is no pattern matches none. */
  static List<String> matching(Collection<String> names, String pattern) {
    if (pattern.length() > LONGEST || pattern.indexOf('{') >= 0) {
      // counted repetitions are written out, and of one another multiply
      throw Denied.forbidden(
          "A pattern of SHOW has at most " + LONGEST + " characters and no counted repetition.");
    }
    TreeSet<String> found = new TreeSet<>();
    for (String part : pattern.trim().split("\\|")) {
      try {
        Pattern matcher = Pattern.compile(part.replace("*", ".*"), Pattern.CASE_INSENSITIVE);
        names.stream().filter(matcher::matches).forEach(found::add);
      } catch (PatternSyntaxException e) {
        continue;
      }
    }
    return List.copyOf(found);
  }
}

package io.sluice.engine;

/**
 * Refuses a text that would keep Spark's parser busy for minutes: one pass over its characters,
 * before the parser sees any. Reads as Spark's lexer does; a string, name or comment that is not
 * closed is refused here, because the lexer would look for its end again from each character.
 */
final class StatementBounds {
  static final int LONGEST_TEXT = 1 << 20;
  static final int LONGEST_NAME = 255;
  static final int LONGEST_EXPONENT = 3;
  static final int DEEPEST = 200;
  static final int DEEPEST_COMMENT = 32;
  static final int MOST_INNER_COMMENTS = 1_000;
  static final int MOST_LAMBDAS = 500;
  // The parser reads on to the last of them at each of them.
  static final int MOST_LATERAL_VIEWS = 1_000;
  // The parser's work grows with the depth of each bracket: this many levels in all,
  // those of brackets less than FREE_DEPTH deep not counted.
  static final int MOST_LEVELS = 20_000;
  // Spark takes an escape out of a string by reading the rest of it: escapes times length.
  static final int MOST_ESCAPE_STEPS = 200_000_000;
  // The parser makes each set of a CUBE that stands in GROUPING SETS.
  static final int MOST_CUBE_SETS = 4_096;
  // Of ROLLUP there it makes each beginning: columns times columns.
  static final int MOST_ROLLUP_STEPS = 16_777_216;
  private static final int FREE_DEPTH = 10;
  private static final char CASE = 'C';
  private static final char CUBE = 'Q';
  private static final char ROLLUP = 'R';

  private final String text;
  private final char[] open = new char[DEEPEST + 1];
  private final int[] commas = new int[DEEPEST + 1];
  private int at;
  private int depth;
  private int levels;
  private int prefixes;
  private int innerComments;
  private int lambdas;
  private long escapeSteps;
  private char analytics; // CUBE or ROLLUP right before
  private boolean isAfterLateral;
  private int lateralViews;
  private long cubeSets;
  private long rollupSteps;

  private StatementBounds(String text) {
    this.text = text;
  }

  /** Throws {@link Denied} with the limit and what was found instead. */
  static void require(String text) {
    limit("The statement has", text.length(), "characters", LONGEST_TEXT);
    new StatementBounds(text).read();
  }

  /** Throws {@link Denied} when a name is longer than any can be. */
  static void requireName(String name) {
    limit("A name has", name.length(), "characters", 3 * LONGEST_NAME);
  }

  private void read() {
    while (at < text.length()) {
      char next = text.charAt(at);
      if (next == '\'' || next == '"') {
        string(next, at > 0 && isRaw(at - 1));
      } else if (next == '`') {
        name();
      } else if (text.startsWith("--", at)) {
        lineComment();
      } else if (text.startsWith("/*", at)) {
        comment();
      } else if (isWord(next)) {
        word();
      } else {
        sign(next);
      }
    }
  }

  private void sign(char next) {
    at++;
    if (Character.isWhitespace(next)) {
      return;
    }
    if (next == '-' && at < text.length() && text.charAt(at) == '>') {
      limit("The statement has", ++lambdas, "lambda arrows", MOST_LAMBDAS);
    }
    if (next == '(' || next == '[' || next == '{') {
      push(analytics != 0 ? analytics : next);
    } else if (next == ')' || next == ']' || next == '}') {
      pop();
    } else if (next == ',' && depth > 0) {
      commas[depth - 1]++;
    }
    analytics = 0;
    prefixes = "-+~!".indexOf(next) >= 0 ? prefixes + 1 : 0;
    limit("The statement has", prefixes, "prefix operators in a row", DEEPEST);
  }

  private void word() {
    int begin = at;
    while (at < text.length() && isWord(text.charAt(at))) {
      at++;
    }
    limit("A word has", at - begin, "characters", LONGEST_NAME);
    String word = text.substring(begin, at);
    if (isDigit(word.charAt(0))) {
      exponent(begin);
    }
    boolean isRollup = word.equalsIgnoreCase("rollup");
    analytics = word.equalsIgnoreCase("cube") ? CUBE : isRollup ? ROLLUP : 0;
    lateralViews += isAfterLateral && word.equalsIgnoreCase("view") ? 1 : 0;
    limit("The statement has", lateralViews, "LATERAL VIEWs", MOST_LATERAL_VIEWS);
    isAfterLateral = word.equalsIgnoreCase("lateral");
    boolean isNot = word.equalsIgnoreCase("not");
    prefixes = isNot ? prefixes + 1 : 0;
    limit("The statement has", prefixes, "NOT in a row", DEEPEST);
    if (word.equalsIgnoreCase("case")) {
      push(CASE);
    } else if (word.equalsIgnoreCase("end") && depth > 0 && open[depth - 1] == CASE) {
      depth--;
    }
  }

  /** A decimal of such a number would be written out with all its zeros. */
  private void exponent(int begin) {
    int sign = begin;
    while (sign < at && isDigit(text.charAt(sign))) {
      sign++;
    }
    if (sign == at || Character.toLowerCase(text.charAt(sign)) != 'e') {
      return;
    }
    int digits = sign + 1;
    if (digits == at && at < text.length() && "+-".indexOf(text.charAt(at)) >= 0) {
      digits++;
    }
    int end = digits;
    while (end < text.length() && isDigit(text.charAt(end))) {
      end++;
    }
    limit("The exponent of a number has", end - digits, "digits", LONGEST_EXPONENT);
  }

  private void push(char kind) {
    limit("The statement nests brackets and CASE", depth + 1, "deep", DEEPEST);
    commas[depth] = 0;
    open[depth++] = kind;
    levels += Math.max(0, depth - FREE_DEPTH);
    limit("The nested brackets of the statement have", levels, "levels in all", MOST_LEVELS);
  }

  private void pop() {
    while (depth > 0 && open[depth - 1] == CASE) {
      depth--;
    }
    depth = Math.max(0, depth - 1);
    char kind = open[depth];
    open[depth] = 0; // an end without a beginning finds nothing
    long columns = commas[depth] + 1L;
    if (kind == CUBE) {
      cubeSets += 1L << Math.min(columns, 40);
      limit("The CUBEs of the statement are", cubeSets, "sets of columns", MOST_CUBE_SETS);
    } else if (kind == ROLLUP) {
      rollupSteps += columns * columns;
      limit("The ROLLUPs' columns, squared, are", rollupSteps, "", MOST_ROLLUP_STEPS);
    }
  }

  /** As Spark's lexer: a backslash takes the next character along, but not in r'…'. */
  private void string(char quote, boolean isRaw) {
    int begin = at++;
    long escapes = 0;
    while (at < text.length() && text.charAt(at) != quote) {
      boolean isEscape = !isRaw && text.charAt(at) == '\\';
      escapes += isEscape ? 1 : 0;
      at += isEscape ? 2 : 1;
    }
    close(begin, "string");
    prefixes = 0;
    escapeSteps += escapes * (at - begin);
    limit("Escapes times characters of the strings are", escapeSteps, "", MOST_ESCAPE_STEPS);
  }

  private void name() {
    int begin = at++;
    int length = 0;
    while (at < text.length() && (text.charAt(at) != '`' || text.startsWith("``", at))) {
      at += text.charAt(at) == '`' ? 2 : 1;
      length++;
    }
    close(begin, "name in back-quotes");
    limit("A name has", length, "characters", LONGEST_NAME);
    prefixes = 0;
  }

  private void lineComment() {
    while (at < text.length() && text.charAt(at) != '\n') {
      // Spark's lexer lets a backslash continue the comment on the next line.
      at += text.startsWith("\\\n", at) ? 2 : 1;
    }
  }

  private void comment() {
    int begin = at;
    int inside = 0;
    do {
      if (text.startsWith("/*", at)) {
        inside++;
        at += 2;
        limit("The statement nests comments", inside, "deep", DEEPEST_COMMENT);
        innerComments += inside > 1 ? 1 : 0;
        limit("The statement has", innerComments, "comments in others", MOST_INNER_COMMENTS);
      } else if (text.startsWith("*/", at)) {
        inside--;
        at += 2;
      } else {
        at++;
      }
    } while (inside > 0 && at < text.length());
    if (inside > 0) {
      throw Denied.malformed("comment", begin);
    }
  }

  private void close(int begin, String what) {
    if (at >= text.length()) {
      throw Denied.malformed(what, begin);
    }
    at++;
  }

  private boolean isRaw(int letter) {
    boolean isR = Character.toLowerCase(text.charAt(letter)) == 'r';
    return isR && (letter == 0 || !isWord(text.charAt(letter - 1)));
  }

  private static boolean isWord(char one) {
    return one == '_' || Character.isLetterOrDigit(one);
  }

  private static boolean isDigit(char one) {
    return one >= '0' && one <= '9';
  }

  private static void limit(String what, long found, String unit, int most) {
    if (found > most) {
      String figure = unit.isEmpty() ? "" + found : found + " " + unit;
      throw Denied.tooComplex(what + " " + figure + "; at most " + most);
    }
  }
}

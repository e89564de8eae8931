// Spark SQL's words: for colours, and what completes the word at the cursor: names of the
// catalogue, then key words.
import { statementAt, tablesOf } from "./sql_text.js";

const KEYWORDS = `
  add after all alter analyze and anti archive array as asc at between bucket buckets
  by cache cascade case cast change clear cluster clustered codegen collection column
  columns comment commit compact compactions compute concatenate cost create cross
  cube current current_date current_timestamp database databases data dbproperties
  defined delete delimited deny desc describe dfs directories distinct distribute drop
  else end escaped except exchange exists explain export extended external false
  fields fileformat first following for format formatted from full function functions
  global grant group grouping having if ignore import in index indexes inner inpath
  inputformat insert intersect interval into is items join keys last lateral lazy left
  like limit lines list load local location lock locks logical macro map minus msck
  natural no not null nulls of on optimize option options or order out outer
  outputformat over overwrite partition partitioned partitions percent preceding
  principals purge range recordreader recordwriter recover reduce refresh regexp
  rename repair replace reset restrict revoke right rlike role roles rollback rollup
  row rows schema schemas select semi separated serde serdeproperties set sets show
  skewed sort sorted start statistics stored stratify struct table tables tablesample
  tblproperties temp temporary terminated then to touch transaction transactions
  transform true truncate unarchive unbounded uncache union unlock unset use using
  values view when where window with
`.trim().split(/\s+/);

// Functions and types. What is a key word as well is shown as one.
const NAMES = `
  abs acos acosh add_months aggregate any approx_count_distinct approx_percentile
  array_contains array_distinct array_except array_intersect array_join array_max
  array_min array_position array_remove array_repeat array_sort array_union
  arrays_overlap arrays_zip ascii asin asinh assert_true atan atan2 atanh avg base64
  bigint bin binary bit_and bit_count bit_get bit_length bit_or bit_xor bool_and
  bool_or boolean bround btrim cardinality cbrt ceil ceiling char char_length
  character_length chr coalesce collect_list collect_set concat concat_ws conv corr
  cos cosh cot count count_if count_min_sketch covar_pop covar_samp crc32 cume_dist
  current_catalog current_database current_timezone current_user date date_add
  date_format date_from_unix_date date_part date_sub date_trunc datediff day
  dayofmonth dayofweek dayofyear decimal decode degrees dense_rank div double e
  element_at elt encode every exp explode explode_outer expm1 extract factorial filter
  find_in_set first_value flatten float floor forall format_number format_string
  from_csv from_json from_unixtime from_utc_timestamp get_json_object getbit greatest
  grouping_id hash hex hour hypot ifnull initcap inline inline_outer
  input_file_block_length input_file_block_start input_file_name instr int isnan
  isnotnull isnull java_method json_array_length json_object_keys json_tuple kurtosis
  lag last_day last_value lcase lead least length levenshtein ln locate log log10
  log1p log2 lower lpad ltrim make_date make_dt_interval make_interval make_timestamp
  make_ym_interval map_concat map_entries map_filter map_from_arrays map_from_entries
  map_keys map_values map_zip_with max max_by md5 mean min min_by minute mod
  monotonically_increasing_id month months_between named_struct nanvl negative
  next_day now nth_value ntile nullif nvl nvl2 octet_length overlay parse_url
  percent_rank percentile percentile_approx pi pmod posexplode posexplode_outer
  position positive pow power printf quarter radians raise_error rand randn random
  rank rcfile reflect regexp_extract regexp_extract_all regexp_like regexp_replace
  repeat reverse rint round row_number rpad rtrim schema_of_csv schema_of_json second
  sentences sequence sequencefile session_window sha sha1 sha2 shiftleft shiftright
  shiftrightunsigned shuffle sign signum sin sinh size skewness slice smallint some
  sort_array soundex space spark_partition_id split sqrt stack std stddev stddev_pop
  stddev_samp str_to_map string substr substring substring_index sum tan tanh textfile
  time timestamp timestamp_micros timestamp_millis timestamp_seconds tinyint to_csv
  to_date to_json to_timestamp to_unix_timestamp to_utc_timestamp transform_keys
  transform_values translate trim trunc try_add try_divide typeof ucase unbase64 unhex
  uniontype unix_date unix_micros unix_millis unix_seconds unix_timestamp upper uuid
  var_pop var_samp variance version weekday weekofyear width_bucket xpath
  xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short
  xpath_string xxhash64 year zip_with
`.trim().split(/\s+/).join(" ");

// These have colours of their own, which a key word's would take from them.
const VALUES = new Set(["true", "false", "null"]);

export function sparkDialect() {
  const { SQLDialect, delimitedIndent, indentNodeProp } = window.CodeMirror;
  const spark = SQLDialect.define({
    keywords: KEYWORDS.filter((word) => !VALUES.has(word)).join(" "),
    builtin: NAMES,
    identifierQuotes: "`",
    doubleQuotedStrings: true,
    backslashEscapes: true,
  });
  // A new line begins below the last one, inside parentheses below what they hold.
  const indents = indentNodeProp.add({
    Statement: () => null,
    Parens: delimitedIndent({ closing: ")" }),
  });
  return spark.configureLanguage({ props: [indents] }, "spark");
}

const TYPED = /[\w.`\u0080-\uffff]*$/;
const MOST_KNOWN = 200;
const known = new Map();

// A completion source of CodeMirror that asks the catalogue at `address`.
export function namesFrom(address) {
  return async ({ state, pos, explicit }) => {
    const line = state.doc.lineAt(pos);
    const typed = TYPED.exec(line.text.slice(0, pos - line.from))[0];
    if ((!typed && !explicit) || /^\d/.test(typed) || isInString(state, pos)) return null;
    const [first, ...rest] = typed.split(".");
    const tables = tablesOf(statementAt(state.doc.toString(), pos).sql);
    const meant = rest.length === 1 && tables.aliases.get(first.toLowerCase());
    const found = meant
      ? await ask(address, [["table", meant], ["typed", rest[0]]])
      : await ask(address, [["typed", typed], ...tables.names.map((name) => ["in", name])]);
    const options = found.map(({ text, detail, kind }) => ({
      label: text,
      detail: detail || kind,
      type: kind,
    }));
    if (!rest.length) options.push(...keywords(typed, options.length));
    if (!options.length || (options.length === 1 && options[0].label === typed)) return null;
    return { from: pos - (meant ? rest[0] : typed).length, options, filter: false };
  };
}

async function ask(address, parameters) {
  const url = `${address}?${new URLSearchParams(parameters)}`;
  if (!known.has(url)) {
    const response = await fetch(url, { headers: { Accept: "application/json" } });
    if (!response.ok) return [];
    known.set(url, (await response.json()).names);
    if (known.size > MOST_KNOWN) known.delete(known.keys().next().value);
  }
  return known.get(url);
}

function isInString(state, pos) {
  return window.CodeMirror.syntaxTree(state).resolveInner(pos, -1).name === "String";
}

function keywords(typed, room) {
  if (typed.length < 2) return [];
  return KEYWORDS.filter((word) => word.startsWith(typed.toLowerCase()))
    .slice(0, Math.max(4, 12 - room))
    .map((word) => ({ label: word.toUpperCase(), type: "keyword" }));
}

package io.sluice.engine;

import java.util.Set;

/**
 * Which expressions and functions a statement may contain: an allow-list by class and by name.
 *
 * <p>Names are checked on the parsed plan, before analysis, because analysis already evaluates
 * some of them (inline tables, arguments of table functions); classes are checked on the
 * analysed plan. Left out on purpose: reflection, user code, file names and paths, XML, version.
 */
final class AllowedExpressions {
  private static final String PACKAGE = "org.apache.spark.sql.catalyst.expressions.";

  /** Classes of {@code catalyst.expressions}. */
  private static final Set<String> SCALAR =
      Words.of(
          """
      Abs Acos Acosh Add AddMonths AesDecrypt AesEncrypt Alias And ArrayAggregate
      ArrayAppend ArrayCompact ArrayContains ArrayDistinct ArrayExcept ArrayExists
      ArrayFilter ArrayForAll ArrayInsert ArrayIntersect ArrayJoin ArrayMax ArrayMin
      ArrayPosition ArrayPrepend ArrayRemove ArrayRepeat ArraySize ArraySort ArrayTransform
      ArrayUnion ArraysOverlap ArraysZip Ascii Asin Asinh AssertTrue AtLeastNNonNulls Atan
      Atan2 Atanh AttributeReference BRound Base64 Bin BinaryPad BinaryPredicate BitLength
      BitmapBitPosition BitmapBucketNumber BitmapConstructAgg BitmapCount BitmapOrAgg
      BitwiseAnd BitwiseCount BitwiseGet BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast
      CastTimestampNTZToLong Cbrt Ceil CheckOverflow CheckOverflowInSum Chr Coalesce Concat
      ConcatWs Contains Conv ConvertTimezone Cos Cosh Cot Crc32 CreateArray CreateMap
      CreateNamedStruct Csc CsvToStructs Cube CumeDist CurrentCatalog CurrentDatabase
      CurrentDate CurrentRow CurrentTimeZone CurrentTimestamp CurrentUser DateAdd
      DateAddInterval DateAddYMInterval DateDiff DateFormatClass DateFromUnixDate DateSub
      DatetimeSub DayOfMonth DayOfWeek DayOfYear DecimalDivideWithOverflowCheck Decode
      DenseRank Divide DivideDTInterval DivideInterval DivideYMInterval DropField ElementAt
      Elt Empty2Null Encode EndsWith EqualNull EqualNullSafe EqualTo EulerNumber Exists Exp
      Explode Expm1 Extract ExtractANSIIntervalDays ExtractANSIIntervalHours
      ExtractANSIIntervalMinutes ExtractANSIIntervalMonths ExtractANSIIntervalSeconds
      ExtractANSIIntervalYears ExtractIntervalDays ExtractIntervalHours
      ExtractIntervalMinutes ExtractIntervalMonths ExtractIntervalSeconds
      ExtractIntervalYears Factorial FindInSet Flatten Floor FormatNumber FormatString
      FromUTCTimestamp FromUnixTime GeneratorOuter Get GetArrayItem GetArrayStructFields
      GetJsonObject GetMapValue GetStructField GetTimestamp GreaterThan GreaterThanOrEqual
      Greatest Grouping GroupingID GroupingSets Hex HllSketchEstimate HllUnion Hour Hypot
      ILike If In InSet InSubquery InitCap Inline IntegralDivide IsNaN IsNotNull IsNull
      JsonObjectKeys JsonToStructs JsonTuple KnownFloatingPointNormalized KnownNotNull
      KnownNullable Lag LambdaFunction LastDay LateralColumnAliasReference LateralSubquery
      Lead Least Left Length LengthOfJsonArray LessThan LessThanOrEqual Levenshtein Like
      LikeAll LikeAny ListQuery Literal LocalTimestamp Log Log10 Log1p Log2 Logarithm Lower
      Luhncheck MakeDTInterval MakeDate MakeInterval MakeTimestamp MakeYMInterval MapConcat
      MapContainsKey MapEntries MapFilter MapFromArrays MapFromEntries MapKeys MapValues
      MapZipWith Mask Md5 MicrosToTimestamp MillisToTimestamp Minute
      MonotonicallyIncreasingID Month MonthsBetween MultiCommutativeOp Multiply
      MultiplyDTInterval MultiplyInterval MultiplyYMInterval Murmur3Hash NTile NaNvl
      NamePlaceholder NamedArgumentExpression NamedLambdaVariable NextDay Not NotLikeAll NotLikeAny Now
      NthValue NullIf Nvl Nvl2 OctetLength Or OuterReference Overlay ParseToDate
      ParseToTimestamp ParseUrl PercentRank Pi Pmod PosExplode Pow PreciseTimestampConversion PrettyAttribute
      Quarter RLike RaiseError Rand Randn Rank RegExpCount RegExpExtract
      RegExpExtractAll RegExpInStr RegExpReplace RegExpSubStr Remainder Reverse Right Rint
      Rollup Round RoundCeil RoundFloor RowNumber ScalarSubquery SchemaOfCsv SchemaOfJson
      Sec Second SecondWithFraction SecondsToTimestamp Sentences Sequence SessionWindow Sha1
      Sha2 ShiftLeft ShiftRight ShiftRightUnsigned Shuffle Signum Sin Sinh Size Slice
      SortArray SortOrder SoundEx SparkPartitionID SparkVersion SpecifiedWindowFrame SplitPart
      Sqrt Stack StartsWith StringDecode StringInstr StringLPad StringLocate StringRPad
      StringRepeat StringReplace StringSpace StringSplit StringSplitSQL StringToMap
      StringTranslate StringTrim StringTrimBoth StringTrimLeft StringTrimRight StructsToCsv
      StructsToJson Substring SubstringIndex Subtract SubtractDates SubtractTimestamps Tan
      Tanh TimeAdd TimeWindow TimestampAdd TimestampAddYMInterval TimestampDiff ToBinary
      ToCharacter ToDegrees ToNumber ToPrettyString ToRadians ToUTCTimestamp ToUnixTimestamp
      TransformKeys TransformValues TruncDate TruncTimestamp TryAdd TryAesDecrypt TryDivide
      TryElementAt TryEval TryMultiply TrySubtract TryToBinary TryToNumber TypeOf UnBase64
      UnaryMinus UnaryPositive UnboundedFollowing UnboundedPreceding Unhex UnixDate
      UnixMicros UnixMillis UnixSeconds UnixTimestamp UnresolvedNamedLambdaVariable
      UnresolvedWindowExpression UnspecifiedFrame UnwrapUDT UpCast UpdateFields Upper
      UrlDecode UrlEncode Uuid WeekDay WeekOfYear WidthBucket WindowExpression
      WindowSpecDefinition WindowTime WithField XxHash64 Year YearOfWeek ZipWith
      """);

  /** Classes of {@code catalyst.expressions.aggregate}. */
  private static final Set<String> AGGREGATE =
      Words.of(
          """
      AggregateExpression AnyValue ApproxCountDistinctForIntervals ApproximatePercentile
      Average BitAndAgg BitOrAgg BitXorAgg BoolAnd BoolOr CollectList CollectSet CollectTopK
      Corr Count CountIf CountMinSketchAgg CovPopulation CovSample First HistogramNumeric
      HllSketchAgg HllUnionAgg HyperLogLogPlusPlus Kurtosis Last Max MaxBy Median Min MinBy
      Mode NoOp Percentile PercentileCont PercentileDisc PivotFirst Product RegrAvgX
      RegrAvgY RegrCount RegrIntercept RegrR2 RegrReplacement RegrSXX RegrSXY RegrSYY
      RegrSlope Skewness StddevPop StddevSamp Sum VariancePop VarianceSamp
      """);

  /** Classes of the parsed plan that analysis replaces. */
  private static final Set<String> UNRESOLVED =
      Words.of(
          """
      MultiAlias TempResolvedColumn UnresolvedAlias UnresolvedAttribute UnresolvedExtractValue
      UnresolvedFunction UnresolvedGenerator UnresolvedOrdinal UnresolvedRegex UnresolvedSeed
      UnresolvedStar ResolvedStar
      """);

  /** Functions callable by name. */
  private static final Set<String> FUNCTIONS =
      Words.of(
          """
      abs acos acosh add_months aes_decrypt aes_encrypt aggregate and any any_value
      approx_count_distinct approx_percentile array array_agg array_append array_compact
      array_contains array_distinct array_except array_insert array_intersect array_join
      array_max array_min array_position array_prepend array_remove array_repeat array_size
      array_sort array_union arrays_overlap arrays_zip ascii asin asinh assert_true atan
      atan2 atanh avg base64 bigint bin binary bit_and bit_count bit_get bit_length bit_or
      bit_xor bitmap_bit_position bitmap_bucket_number bitmap_construct_agg bitmap_count
      bitmap_or_agg bool_and bool_or boolean bround btrim cardinality cast cbrt ceil ceiling
      char char_length character_length chr coalesce collect_list collect_set concat
      concat_ws contains conv convert_timezone corr cos cosh cot count count_if
      count_min_sketch covar_pop covar_samp crc32 csc cume_dist curdate current_catalog
      current_database current_date current_schema current_timestamp current_timezone
      current_user date date_add date_diff date_format date_from_unix_date date_part
      date_sub date_trunc dateadd datediff datepart day dayofmonth dayofweek dayofyear
      decimal decode degrees dense_rank div double e element_at elt encode endswith
      equal_null every exists exp explode explode_outer expm1 extract factorial filter
      find_in_set first first_value flatten float floor forall format_number format_string
      from_csv from_json from_unixtime from_utc_timestamp get get_json_object getbit
      greatest grouping grouping_id hash hex histogram_numeric hll_sketch_agg
      hll_sketch_estimate hll_union hll_union_agg hour hypot if ifnull ilike in initcap
      inline inline_outer instr int isnan isnotnull isnull json_array_length
      json_object_keys json_tuple kurtosis lag last last_day last_value lcase lead least
      left len length levenshtein like ln localtimestamp locate log log10 log1p log2 lower
      lpad ltrim luhn_check make_date make_dt_interval make_interval make_timestamp
      make_timestamp_ltz make_timestamp_ntz make_ym_interval map map_concat map_contains_key
      map_entries map_filter map_from_arrays map_from_entries map_keys map_values
      map_zip_with mask max max_by md5 mean median min min_by minute mod mode
      monotonically_increasing_id month months_between named_struct nanvl negative next_day
      not now nth_value ntile nullif nvl nvl2 octet_length or overlay parse_url percent_rank
      percentile percentile_approx pi pmod posexplode posexplode_outer position positive pow
      power printf quarter radians raise_error rand randn random rank reduce regexp
      regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace
      regexp_substr regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope
      regr_sxx regr_sxy regr_syy repeat replace reverse right rint rlike round row_number
      rpad rtrim schema_of_csv schema_of_json sec second sentences sequence session_window
      sha sha1 sha2 shiftleft shiftright shiftrightunsigned shuffle sign signum sin sinh
      size skewness slice smallint some sort_array soundex space spark_partition_id split
      split_part sqrt stack startswith std stddev stddev_pop stddev_samp str_to_map string
      struct substr substring substring_index sum tan tanh timestamp timestamp_micros
      timestamp_millis timestamp_seconds tinyint to_binary to_char to_csv to_date to_json
      to_number to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp
      to_utc_timestamp to_varchar transform transform_keys transform_values translate trim
      trunc try_add try_aes_decrypt try_avg try_divide try_element_at try_multiply
      try_subtract try_sum try_to_binary try_to_number try_to_timestamp typeof ucase
      unbase64 unhex unix_date unix_micros unix_millis unix_seconds unix_timestamp upper
      url_decode url_encode user uuid var_pop var_samp variance version weekday weekofyear when
      width_bucket window window_time xxhash64 year zip_with
      """);

  /** Functions callable in FROM and in LATERAL VIEW. */
  private static final Set<String> TABLE_FUNCTIONS =
      Words.of(
          """
      explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple
      range
      """);

  private AllowedExpressions() {}

  /** True for a class that may stand in an analysed plan. */
  static boolean isAllowed(Class<?> expression) {
    String name = expression.getName();
    if (!name.startsWith(PACKAGE)) {
      return false;
    }
    String rest = Words.withoutModuleSign(name.substring(PACKAGE.length()));
    return rest.startsWith("aggregate.")
        ? AGGREGATE.contains(rest.substring("aggregate.".length()))
        : SCALAR.contains(rest);
  }

  /** True for a class that may stand in a parsed plan. */
  static boolean isAllowedParsed(Class<?> expression) {
    String name = expression.getName();
    String analysis = "org.apache.spark.sql.catalyst.analysis.";
    return isAllowed(expression)
        || name.startsWith(analysis)
            && UNRESOLVED.contains(Words.withoutModuleSign(name.substring(analysis.length())));
  }

  /** True for a function that may be called by this name. */
  static boolean isAllowedFunction(String name) {
    return FUNCTIONS.contains(Words.lower(name));
  }

  /** True for a table-valued function that may be called by this name. */
  static boolean isAllowedTableFunction(String name) {
    return TABLE_FUNCTIONS.contains(Words.lower(name));
  }
}

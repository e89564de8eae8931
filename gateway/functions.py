"""Names of SQL functions that GetFunctions tells editors about."""

from __future__ import annotations

_WORDS = """
abs acos add_months approx_count_distinct array array_contains array_distinct
array_join array_max array_min array_position array_size array_sort ascii asin
atan avg base64 bit_and bit_or bround cardinality cast ceil ceiling char_length
coalesce collect_list collect_set concat concat_ws corr cos count count_if
covar_pop crc32 cume_dist current_catalog current_database current_date
current_timestamp current_user date date_add date_format date_sub date_trunc
datediff day dayofmonth dayofweek dayofyear decode dense_rank element_at encode
every exists exp explode filter first first_value flatten floor format_number
from_json from_unixtime get_json_object greatest grouping hash hex hour if
ifnull initcap instr isnan isnotnull isnull json_tuple lag last last_day
last_value lcase lead least left length ln locate log log10 lower lpad ltrim
make_date map max max_by md5 mean min min_by minute mod month months_between
named_struct next_day now nth_value ntile nullif nvl percent_rank percentile
percentile_approx pi posexplode pow power quarter radians rand rank
regexp_extract regexp_replace repeat replace reverse right rlike round
row_number rpad rtrim second sequence sha1 sha2 sign sin size sort_array split
sqrt stddev struct substr substring sum tan timestamp to_date to_json
to_timestamp transform translate trim trunc typeof ucase unbase64 unhex
unix_timestamp upper uuid variance weekofyear when window xxhash64 year
"""
NAMES: tuple[str, ...] = tuple(_WORDS.split())

"""What the naive evaluator does where the page on the second edition is silent.

Each entry is an answer that a person who knows SQL or openCypher would expect. An engine that follows the list gives
the rows of the evaluator; whoever changes an entry changes the evaluator, its table of answers and the corpus with it.
"""

from __future__ import annotations

DECISIONS: dict[str, str] = {
    # Columns
    "column-names": (
        "A column without alias keeps the name of the first edition where it has one: x.prop, x, param, "
        "literal (every literal, null and negative numbers too), now; count, sum, avg, min and max of one of "
        "those, without distinct and where, are named by their argument. Every other expression is named by "
        "its formatted text: '$p.age + 1', 'count(*)', 'collect($p.name)', 'count(distinct $p.age)'; so is any "
        "that has the name of another column otherwise. Columns of a result that still have one name are refused."
    ),
    "column-types": (
        "A property keeps its type. + - * of integers, sign, floor, ceil and round of an integer, length, "
        "size, parts of dates, count and count blocks are I64; every other number is F64. case, coalesce, "
        "greatest, least, list items, union columns: one type stays as it is, mixed integers are I64, a float "
        "among numbers gives F64, null fits every type, anything else is a type error. A column of nulls "
        "alone is a String. An empty list is [String]."
    ),
    "bare-interval": (
        "An Interval, an edge variable and a Blob are no column, no list item and no argument of min or collect."
    ),
    "path-value": (
        "$p in return is a struct {nodes: [String], edges: [String]} of ids; it has no order and no equality."
    ),
    # Values
    "unsigned": ("An operand of arithmetic is converted to I64 first, so a U64 above 2^63-1 is an overflow by itself."),
    "floats": (
        "A float result that is not finite is an overflow error, never Infinity or NaN. sqrt of less than 0, "
        "ln and log10 of 0 or less, power of a negative number to a fraction and of 0 to a negative number "
        "are domain errors."
    ),
    "remainder": "% has the sign of the dividend: -7 % 3 = -1.",
    "f32": ("A literal or a parameter beside any value of type F32, items of a list included, is compared as F32."),
    "null-in-empty": "x in [] is false, for NULL too; list contains x is x in list; x in NULL is unknown.",
    "null-operand": ("Date + null and DateTime - null are type errors, because null could be two things there."),
    "entities": (
        "$x is null asks whether a node, edge or path variable of an optional block has a value. A bare node "
        "is a column, an argument of count, min, max and collect, and a key, nothing else: it does not "
        "compare, id($a) = id($b) does that."
    ),
    "intervals": (
        "An interval is months and milliseconds. For comparisons and in_days, in_hours, in_seconds (all F64) "
        "a month counts as 30 days and a year as 12 months. Intervals add, subtract and take a sign. A moment "
        "plus an interval adds the months first, clamps to the last day, then adds the time. A Date stays a "
        "Date: the time counts from midnight and the result is cut to its date, so date - hours(1) is the day "
        "before. interval + date is legal. Years outside 1 to 9999 are an overflow. The argument of days(n) "
        "and its kin is an integer."
    ),
    # Functions
    "strict": ("greatest, least and concat are strict like the rest: one NULL makes NULL. Only coalesce is not."),
    "letters": (
        "lower and upper change each code point by itself, and leave one alone that would become several. "
        "length, reverse and substring count code points. trim removes space, tab, CR and LF."
    ),
    "substring": (
        "substring(s, from [, n]) counts from 0 like list[i]. A from below 0 is 0, an n below 0 is 0, without "
        "n it goes to the end, and what lies outside of the text is simply not there."
    ),
    "split-replace": (
        'split(s, sep) keeps empty parts; split of the empty text is [""]; an empty separator does not split. '
        "replace of the empty text changes nothing."
    ),
    "concat": "concat takes one or more Strings; to_string turns other values into one.",
    "round": (
        "round(x [, digits]) is half away from zero of x * 10^digits, then divided by it, in F64 arithmetic: "
        "round(2.5) = 3.0, round(-2.5) = -3.0, round(1.45, 1) = 1.5, round(1.005, 2) = 1.0. Negative digits "
        "round to tens. Where x * 10^digits is not finite, x is the result. An integer stays an integer."
    ),
    "numbers": ("abs, floor and ceil keep integers I64 and make floats F64; sqrt, power, ln, exp and log10 are F64."),
    "weekday": ("weekday is ISO: Monday 1 to Sunday 7. hour and minute take a DateTime only. Everything is UTC."),
    "date-trunc": (
        "date_trunc takes a literal unit: year, quarter, month, week (Monday), day, and for a DateTime also "
        "hour, minute, second. The result has the type of its argument."
    ),
    "to-string": (
        "to_string writes what a JSON result would show: true, 3, 1.0, 1e+300, 2026-01-31, "
        "2026-01-31T10:00:00.000Z; an F32 by its shortest text (0.1)."
    ),
    "to-int": (
        "to_int takes text of an optional sign and ASCII digits, nothing around them; a float is cut toward "
        "zero; true is 1. Out of the range of I64 it is NULL. to_float takes digits with an optional point "
        "and exponent, no inf or nan. to_bool takes true and false in any case. to_date and to_datetime take "
        "the texts of the first edition's literals; to_date of a DateTime is its UTC date, to_datetime of a "
        "Date its midnight."
    ),
    "casts": (
        "cast_int, cast_float, cast_bool, cast_date and cast_datetime are to_* that raise instead of giving "
        "NULL; NULL stays NULL."
    ),
    "list-item": "list[i] is 0-based; a negative index is outside, hence NULL.",
    "matches": (
        "A pattern is a literal or a parameter; a NULL pattern is unknown; an invalid one is an error before "
        "any row is read."
    ),
    "version": (
        "version($x) is the id of the commit that last changed the entity, NULL of no entity. The evaluator is told "
        "which commit that is; where it is not, all entities are at one."
    ),
    # Match
    "optional-order": (
        "An optional block sees the variables bound before it in the text; clauses behind it see its "
        "variables, and drop the rows where a variable they need is NULL. A binding of such a variable drops "
        "them too."
    ),
    "block-scope": ("exists, not and count blocks see what is bound before them; what they bind is seen inside alone."),
    "alternation": (
        "Without an edge variable each destination comes once, whatever edges lead to it; with one, each edge "
        "is a row. A property is common when all edge types have it with the same type. Bounds and <…> apply "
        "to all together."
    ),
    "interface": (
        "A traversal from an interface variable uses the node types that are an end of the edge: outward if "
        "one of them is its start, else inward; nodes of other types have no match. Two nodes of different "
        "types with one id are two nodes: ties and groups of a bare variable go by id, then by type."
    ),
    "walk-condition": (
        "The condition of a walk sees the edge, parameters, and what is bound before the clause, not the ends "
        "that the clause binds. With the default bounds the edge variable is an ordinary one and is seen "
        "outside; with others, and in a path, it is seen in the condition alone."
    ),
    "paths": (
        "Ties of node ids are broken by edge ids, so parallel edges matter: path takes the least, path all "
        "gives one row for each. A node that its own loop emits has the loop as last step. length is the "
        "number of edges."
    ),
    "open-bounds": "A walk {n,} fails when it would reach a node that it has not yet met at hop cap + 1.",
    "each": ("each over NULL or an empty list gives no rows; equal items give equal rows; the name must be new."),
    "inline": "The value of an inline predicate may be any expression over what is bound before.",
    # Output
    "row-order": (
        "The rows of a match have an order: the place that the stage before gave them if it has an order, "
        "then the ids of entities by the name of the variable (NULL first, then id, then type), then the "
        "values of items, paths and named values by name. collect, ties of order and every cut of a with use "
        "it. A result without order comes in any order; limit alone keeps any rows (first edition), offset "
        "and per without order cut by the order of rows."
    ),
    "group-order": (
        "Ties of groups go by the key columns, ties of distinct rows and of unions by all columns, left to "
        "right, NULL first."
    ),
    "grouping": (
        "An aggregate in return, having or order makes groups. Outside of aggregates such a part may use "
        "keys, properties and id or type of a variable that is a key, aliases (in having, order and per), "
        "literals and parameters. The argument of an aggregate sees the rows before grouping, so a bare name "
        "in it is one of the stage before."
    ),
    "names": (
        "In having, order and per a bare name is an alias of the same part first, then a value of the stage "
        "before; in return and with the latter only."
    ),
    "distinct-order": (
        "Behind distinct, and behind a union, keys are made of columns: an alias, or an expression that was "
        "projected (in a union: by the first read)."
    ),
    "having": (
        "having is applied to groups, or to rows where nothing is grouped, before distinct rows are ordered and cut."
    ),
    "with-names": (
        "In a with, a value needs an alias unless it is a bare variable or a name of the stage before. A "
        "node, edge or path variable stays one; with an alias it is one under that name ($t as team gives "
        "$team). $x.* is refused."
    ),
    "per": (
        "limit n per {…} takes the first n rows of each group; offset m in front of it skips m rows of each "
        "group. The rows keep the whole order."
    ),
    "amount": "A limit or offset from a parameter that is NULL or negative is an input error.",
    "union": (
        "a union all b union c removes duplicates of everything so far. Types of columns fit like the "
        "branches of a case."
    ),
    # Aggregates
    "collect": (
        "collect of nothing is an empty list; collect(distinct e) keeps the first of equals; lists, paths and "
        "intervals are not collected."
    ),
    "percentile": (
        "median and percentile are continuous: linear between the two neighbours of p * (n - 1). p is a "
        "literal, a parameter or made of them; NULL gives NULL, outside of 0 to 1 is a runtime error."
    ),
    "variance": "stddev and variance are those of a sample: NULL for fewer than two values.",
    "any-every": "any and every skip NULL, and are NULL where nothing is left.",
    "count-star": (
        "count(*) counts rows, NULL or not; count(distinct *) is refused; count(distinct $x) counts entities."
    ),
    "sum-int": (
        "sum_int takes integers, is exact, NULL of nothing, and an overflow error beyond I64 (only the total counts)."
    ),
    # Errors
    "errors": (
        "A row whose expression has no value is query.runtime and names the row by the ids of its entities. "
        "case and coalesce guard: what they do not choose never fails. A row fails for certain only if "
        "nothing else decides: a clause, an operand of and or or, a having or a limit that removes it may be "
        "looked at first, and then nothing fails. Which of several failing rows is named is open."
    ),
}

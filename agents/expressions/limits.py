"""Every limit of the expression language, each with its reason.

Together they bound parsing and evaluation to a few milliseconds, whatever the text and the
context are.
"""

from __future__ import annotations

from typing import Final

# Characters of an expression: reading one takes about a millisecond per thousand. A list of all
# 250 country codes fits twice.
MAX_LENGTH: Final = 3_000

# Brackets open at once. Python's parser may try every reading of each level, so its time can
# grow by a factor per level; no rule that a person can read needs more.
MAX_BRACKETS: Final = 12

# `not`, `-` and `+` in a row: a right-recursive chain that exhausts the parser's stack.
MAX_PREFIXES: Final = 4

# Steps of one name (`a.b["c"]` has three): a left-recursive chain that exhausts the stack.
MAX_STEPS: Final = 16

# Levels of the tree. Each costs a few Python frames during evaluation.
MAX_DEPTH: Final = 40

# Nodes of the tree, elements of lists included: bounds one evaluation, and what static checks do.
MAX_NODES: Final = 600

# Characters of one number; longer ones cost quadratic time to read and mean nothing.
MAX_NUMBER_LENGTH: Final = 40

# Integers that JSON carries exactly; the context cannot hold a larger one.
MAX_INTEGER: Final = 2**53

# Characters of a sub-expression's text in a decision.
MAX_PART_LENGTH: Final = 200

# Characters of a string read from the context; the API's contexts (64 KB) cannot hold more.
MAX_STRING: Final = 65_536

# Characters that may be a version or a date.
MAX_VERSION_LENGTH: Final = 100

# Levels that an equality of two lists or objects descends; the API's contexts have 32.
MAX_VALUE_DEPTH: Final = 32

# Work of one evaluation in units of roughly 10 ns: one for a character that is changed in case,
# SEARCH_WORK for one that is searched (short needles are not searched in linear time), SCAN_WORK
# for an element that a list is searched for, ELEMENT_WORK for one that is compared by our rules.
MAX_WORK: Final = 1_000_000
SEARCH_WORK: Final = 8
SCAN_WORK: Final = 4
ELEMENT_WORK: Final = 64

# Static checks: evaluations of single parts, and combinations of values that are tried.
MAX_TRIALS: Final = 1_000
MAX_COMBINATIONS: Final = 256

# Declarations: what an admin can still oversee, and a bound for checking a context.
MAX_VARIABLES: Final = 200
MAX_VALUES: Final = 500
MAX_NAME_LENGTH: Final = 100
MAX_DESCRIPTION_LENGTH: Final = 2_000

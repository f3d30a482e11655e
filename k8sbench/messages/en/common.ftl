# Texts of others, lists, and the joints between parts of a text.

quoted = { $text }
catalog-text = { CATALOG($text) }
and-list = { $first } and { $last }
of-file = { $place }: { $problem }
or-list = { $first } or { $last }
and-more = { $names } and { $number } more
and-then = { $first }; { $then }
and-clause = { $first }, { $then }
next-sentence = { $first } { $then }
sentence = { $text }.
named-value = { $name }: { $value }

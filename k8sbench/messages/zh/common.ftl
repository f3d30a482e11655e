# Texts of others, lists, and the joints between parts of a text.

quoted = “{ $text }”
catalog-text = { CATALOG($text) }
and-list = { $first } 和 { $last }
of-file = { $place }：{ $problem }
or-list = { $first } 或 { $last }
and-more = { $names } 及另外 { $number } 项
and-then = { $first }；{ $then }
and-clause = { $first }，{ $then }
next-sentence = { $first }{ $then }
sentence = { $text }。
named-value = { $name }：{ $value }

# Texts of others.

quoted = “{ $text }”
catalog-text = { CATALOG($text) }
and-list = { $first } 和 { $last }
of-file = { $place }：{ $problem }
or-list = { $first } 或 { $last }

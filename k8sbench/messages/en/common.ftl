# Texts of others.

quoted = { $text }
catalog-text = { CATALOG($text) }
and-list = { $first } and { $last }
of-file = { $place }: { $problem }
or-list = { $first } or { $last }

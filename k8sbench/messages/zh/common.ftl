# Texts of others.

quoted = “{ $text }”
catalog-text = { CATALOG($text) }

# Texts of all parts.

quoted = “{ $text }”

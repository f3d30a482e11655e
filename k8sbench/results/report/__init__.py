"""Groups become tables, documents and plots.

Pure: values in; text, or the bytes of a plot, out.
"""

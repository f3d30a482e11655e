"""How numbers are written: enough digits to tell runs apart, never a 0 that is none."""

from __future__ import annotations

import decimal


def rate(value: float) -> str:
    """Samples per second: two decimals as in the reports, more where the number is small."""
    if value >= 10:
        return f"{value:.2f}"
    return f"{value:.3f}" if value >= 1 else plain(value)


def ratio(value: float) -> str:
    """A speedup: two decimals as in the reports, more where the number is small."""
    return f"{value:.2f}" if value >= 0.1 else plain(value)


def percent(value: float) -> str:
    """A share: 0.958 is ``95.8 %``."""
    return f"{100 * value:.1f} %" if value >= 0.001 else f"{plain(100 * value, 2)} %"


def signed_percent(value: float) -> str:
    """A deviation: −0.012 is ``−1.2 %``, with a real minus sign; less than 0.05 % is ``±0.0 %``."""
    text = f"{abs(100 * value):.1f} %"
    sign = "±" if text == "0.0 %" else "+" if value > 0 else "−"
    return sign + text


def coverage(value: float) -> str:
    """A coverage, exactly enough: 0.9375 is ``93.75 %``."""
    return f"{100 * value:.2f}".rstrip("0").rstrip(".") + " %"


def seconds(value: float) -> str:
    """A time to train: milliseconds as in the reports, no zeros at the end."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def millions(value: int) -> str:
    """A number of parameters: 25557032 is ``25.56 M``."""
    return f"{value / 1e6:.2f} M" if value >= 10_000 else str(value)


def plain(value: float, digits: int = 3) -> str:
    """Any other number, to that many significant digits, never in powers of ten."""
    return format(decimal.Decimal(f"{value:.{digits}g}"), "f")

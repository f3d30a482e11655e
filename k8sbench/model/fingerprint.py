"""The fingerprint of a model: its size and the work of one sample."""

from __future__ import annotations

import msgspec

from k8sbench.model.spec_values import PositiveFloat, PositiveInt, Text


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Identity of the model, whatever program trains it."""

    model: Text
    """Architecture, as its authors name it."""
    parameters: PositiveInt
    """Trainable parameters on all GPUs together, without a classifier that is sharded."""
    gmac: PositiveFloat
    """10⁹ multiply-accumulates of one sample's forward pass at ``input``; of tokens of one token's.
    """
    position_gmac: PositiveFloat | None = None
    """Addition to a token's ``gmac`` by each position of a sequence, for attention."""
    first_layer_gmac: PositiveFloat | None = None
    """Part of ``gmac`` in the input layer.

    Its input gradient is never computed.
    """
    head_gmac: PositiveFloat | None = None
    """Those of a sharded classifier, over all GPUs, which ``gmac`` leaves out."""
    input: Text
    """Shape of one sample, as ``3×512×1024``."""
    note: Text | None = None
    """Method of obtaining the figures, and omissions."""

    def at(self, length: int) -> Fingerprint:
        """The fingerprint at a sequence length, with all of it in ``gmac``."""
        gmac = self.gmac + (self.position_gmac or 0.0) * length
        return msgspec.structs.replace(self, gmac=gmac, position_gmac=None)

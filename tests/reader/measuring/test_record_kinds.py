"""Kinds of records, by their place in the run and the log before them."""

import msgspec
import pytest

from k8sbench.reader.measuring.record_kinds import RecordKind, Situation, classify

NEXT = Situation(
    position=20,
    furthest=10,
    is_first=False,
    is_new_epoch=False,
    replay=None,
    restart=False,
    is_opening=False,
    has_stamp=True,
    is_older=False,
)
AGAIN = msgspec.structs.replace(NEXT, position=10)
EARLIER = msgspec.structs.replace(NEXT, position=5)


@pytest.mark.parametrize(
    ("situation", "more", "kind"),
    [
        (NEXT, {}, RecordKind.NEXT),
        (NEXT, {"restart": True}, RecordKind.NEXT),
        (NEXT, {"replay": RecordKind.BACK}, RecordKind.NEXT),
        (NEXT, {"is_first": True}, RecordKind.FIRST),
        (NEXT, {"is_first": True, "is_new_epoch": True}, RecordKind.FIRST),
        (NEXT, {"is_new_epoch": True}, RecordKind.NEW_EPOCH),
        (EARLIER, {"is_new_epoch": True}, RecordKind.NEW_EPOCH),
        (AGAIN, {}, RecordKind.DUPLICATE),
        (AGAIN, {"restart": True}, RecordKind.REDONE),
        (EARLIER, {}, RecordKind.BACK),
        (EARLIER, {"restart": True}, RecordKind.REDONE),
        (EARLIER, {"is_older": True}, RecordKind.REPEATED),
        (EARLIER, {"is_older": True, "restart": True}, RecordKind.REPEATED),
        (EARLIER, {"is_opening": True, "has_stamp": False}, RecordKind.BACK),
        (EARLIER, {"is_opening": True, "restart": True}, RecordKind.REDONE),
        (
            EARLIER,
            {"is_opening": True, "restart": True, "has_stamp": False},
            RecordKind.REPEATED,
        ),
        (AGAIN, {"replay": RecordKind.REDONE}, RecordKind.REDONE),
        (EARLIER, {"replay": RecordKind.REPEATED, "restart": True}, RecordKind.REPEATED),
    ],
)
def test_a_record_has_the_kind_of_its_situation(
    situation: Situation, more: dict[str, object], kind: RecordKind
) -> None:
    assert classify(msgspec.structs.replace(situation, **more)) is kind

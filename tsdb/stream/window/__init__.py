"""Windows of time over rows that come: TUMBLE and HOP in live queries, with a watermark."""

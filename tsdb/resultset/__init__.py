"""Multi-queries: several dependent queries of one request, whose named result sets are computed once."""

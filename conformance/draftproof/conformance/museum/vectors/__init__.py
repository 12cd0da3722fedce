"""Test vectors: what the reference says of chosen inputs, for those who write verifiers elsewhere.

Four kinds, in sizes that contain each other: whole laws, tables of decisions on supplied numbers,
values with certificates, and input that must be refused. They are computed from the reference
(`making`), written in one form (`written`), and never believed: `checking` computes all again.
"""

"""Test vectors: the reference's results on chosen inputs, for verifiers written elsewhere.

There are four kinds, in nested sizes: whole laws, tables of decisions on supplied numbers, values
with certificates, and input that must be refused. `making` computes them from the reference,
`written` gives them one form, and `checking` trusts nothing in them: it recomputes all.
"""

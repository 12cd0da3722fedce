"""What is true: exact laws of verification algorithms, in rational arithmetic.

    instance -> draft law -> verifier -> law of what is emitted

Read `chance` first, then `model`, then any module of `verifiers`.
"""

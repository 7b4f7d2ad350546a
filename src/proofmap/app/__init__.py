"""``proofmap serve``: a page, and a JSON API behind it, on which anyone plays with proofs.

One thread does all work on nets (:mod:`proofmap.app.worker`); whatever the page asks for is answered from memory or put in
that thread's queue. Needs the extra ``app``.
"""

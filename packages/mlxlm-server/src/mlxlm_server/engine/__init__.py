"""One thread for each model, in which everything is computed.

`Engine` is the event loop's side: `submit` takes a `Ticket`, whose events arrive in its queue.
`Worker` is the thread's side. Between the two are a queue of calls, and one
`call_soon_threadsafe` for each step of the engine with all that came of it.
"""

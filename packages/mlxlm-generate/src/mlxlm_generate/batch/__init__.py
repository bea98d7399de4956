"""The batch engine: many requests share each step, and come and go as they like.

request     what is asked for, checked
insertion   requests from lists
rows        a request that is running: its tokens, what may stop it, its responses
choose      from the logits of all rows to their next tokens, in one pass
lane        rows whose caches go together, decoded one token ahead
guessing    several tokens of a row in a step, where guesses are right
lanes       all of these
switch      rows that are quantized from now on
prefill     prompts on their way into caches, in chunks
memory      how many bytes a request may need
stop, state_machine, constraint   what ends, parts and restricts an answer
generator   the engine: admits, interleaves, delivers
"""

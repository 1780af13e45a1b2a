"""The front door of the segment store: connections of the wire protocol, and what each may ask of the store.

===================  ======================================================  ==========================
module               decides                                                 does
===================  ======================================================  ==========================
listener             who may connect                                         accepts, stops
connection           in which order requests start, when to stop reading     receives, dispatches
connection_writers   when a writer may be set up                             waits for its segment
outbox               when enough is waiting to be sent                       writes
file_sender          -                                                       sends out of chunk files
append_session       order, repetition and refusal of appends                -
read_session         what a read is answered                                 waits
segment_session      -                                                       asks the store
table_session        -                                                       asks the store
table_replies        when a large reply may be put together                  asks, sends, waits
reply_room           -                                                       asks for such room
reply_mapping        which reply an error becomes                            -
admission            how many bytes of requests, or replies, are in memory   -
receive_memory       who may receive a large frame, who has to wait          -
frame_room           -                                                       asks for such room
shared_bound         how many reads may wait, and writers be set up          -
unsent_bytes         when clients leave too much untaken                     -
===================  ======================================================  ==========================

Reading order: ``contract`` (what it needs of the store), ``connection``, then the sessions.
"""

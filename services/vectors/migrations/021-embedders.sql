-- The space of the embedder that the writer of a generation makes the vectors of texts again for; null: it takes them as they are.
alter table platform.index_generations add column embedder text;

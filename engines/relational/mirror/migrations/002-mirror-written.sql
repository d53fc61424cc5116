-- The first offset of each partition that has not been written yet. It may lie beyond `next`, which must not pass a record
-- that is yet to be parked; a writer that was overtaken changes nothing below it.
alter table vectors_build.positions add column written bigint not null default 0;

-- The relational mirror. What reads see lies in the schema vectors; what writers need, in vectors_build.
create extension if not exists vector;
create schema if not exists vectors;
create schema if not exists vectors_build;

-- One row is live: its tables are vectors.embeddings and vectors.metadata. Those of the others lie in vectors_build,
-- with the generation in their names. Number 0 is a fresh one that no writer has taken into use.
create table vectors_build.generations (
  generation integer primary key check (generation >= 0),
  live boolean not null
);
create unique index generations_live on vectors_build.generations (live) where live;

-- The first offset of each partition that is not in the tables yet: written in the transaction of its rows.
create table vectors_build.positions (
  generation integer not null references vectors_build.generations (generation) on update cascade on delete cascade,
  epoch integer not null,
  partition integer not null,
  next bigint not null,
  primary key (generation, epoch, partition)
);

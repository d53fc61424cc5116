-- An agent's own burst and concurrency, next to its own quota: a figure takes the place of its tier's, null leaves it.
alter table platform.agents
  add column burst integer check (burst >= 1),
  add column concurrent integer check (concurrent >= 1);

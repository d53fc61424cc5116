-- The rule of the limits is code of the gateways alone (services/limits/lease-rule.ts); a row is read, changed and
-- written back under the condition that nobody else wrote it meanwhile.

drop function platform.lease(jsonb, double precision);
drop function platform.used_today(text);

-- Another one with every write.
alter table platform.limit_leases add column version uuid not null default gen_random_uuid();

-- What one process alone wrote down from time to time: it is computed from the row now.
alter table platform.limit_days drop column begun;

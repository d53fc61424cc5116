-- The rule of the limits is code of the gateways (services/limits/lease-rule.ts): a row is read, changed and written back
-- under the condition that nobody wrote it meanwhile. Gateways of the release before ask by platform.lease, which stays
-- for as long as both may run at the same time; the trigger gives its writes a new version, too.
alter table platform.limit_leases add column version uuid not null default gen_random_uuid();

create function platform.renew_version() returns trigger language plpgsql as $$
begin
  new.version := gen_random_uuid();
  return new;
end $$;

create trigger renew_version before update on platform.limit_leases
  for each row execute function platform.renew_version();

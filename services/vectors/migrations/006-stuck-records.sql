-- Records that the writer of an index cannot get through although they are alone in their call (a reason is set), and
-- records that an operator wants passed (skip). A row goes when its record is settled.
create table platform.stuck_records (
  reader_group text not null,
  epoch integer not null,
  partition integer not null,
  "offset" bigint not null,
  record_key text not null,
  reason text,
  skip boolean not null default false,
  since timestamptz not null default clock_timestamp(),
  primary key (reader_group, epoch, partition, "offset")
);

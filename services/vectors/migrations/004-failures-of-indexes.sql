-- Each index gives up on records by itself: an operation may have failed in one and stand in the other.
alter table platform.operation_failures add column index_name text not null default 'vectors';
alter table platform.operation_failures drop constraint operation_failures_pkey;
alter table platform.operation_failures add primary key (operation, partition, "offset", index_name);

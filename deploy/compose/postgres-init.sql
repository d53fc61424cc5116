-- The schema registry keeps its schemas in a database of its own on the same server.
create database registry;

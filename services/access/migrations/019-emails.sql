-- E-mails are compared without the case of ASCII letters alone: another letter that the database folds to one of them, as it does
-- U+212A to k, makes another address. people_email stays: no two people have addresses that only look different.
create unique index people_email_ascii on platform.people (lower(email collate "C"));

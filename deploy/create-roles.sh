#!/bin/sh
# Makes two roles, the database and the extension on a new PostgreSQL server, as a superuser.
# registry_owner owns the tables and migrates; registry_app serves, owns nothing, cannot TRUNCATE.
#
# The database container runs it on its first start. Elsewhere, once, with any psql from 15 on:
#   PGHOST=… PGPASSWORD=… REGISTRY_OWNER_PASSWORD=… REGISTRY_APP_PASSWORD=… sh deploy/create-roles.sh
set -eu

: "${REGISTRY_OWNER_PASSWORD:?is not set}" "${REGISTRY_APP_PASSWORD:?is not set}"
superuser="${POSTGRES_USER:-postgres}"

# psql reads the passwords itself: arguments can be seen by every user of the machine.
psql --no-psqlrc --set ON_ERROR_STOP=1 --username "$superuser" --dbname postgres <<'SQL'
\getenv owner_password REGISTRY_OWNER_PASSWORD
\getenv app_password REGISTRY_APP_PASSWORD
CREATE ROLE registry_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE registry_app LOGIN PASSWORD :'app_password';
CREATE DATABASE registry OWNER registry_owner ENCODING 'UTF8' TEMPLATE template0;
REVOKE ALL ON DATABASE registry FROM PUBLIC;
GRANT CONNECT ON DATABASE registry TO registry_app;
SQL

psql --no-psqlrc --set ON_ERROR_STOP=1 --username "$superuser" --dbname registry <<'SQL'
CREATE EXTENSION IF NOT EXISTS vector;
-- Before PostgreSQL 15 everybody could make tables here.
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT CREATE ON SCHEMA public TO registry_owner;
SQL

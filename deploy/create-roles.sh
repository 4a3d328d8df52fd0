#!/bin/sh
# Run once by the database container: two roles, the database, the extension.
# registry_owner owns the tables and migrates; registry_app serves and cannot TRUNCATE.
set -eu

psql --set ON_ERROR_STOP=1 --username postgres --dbname postgres \
  --set owner_password="$REGISTRY_OWNER_PASSWORD" \
  --set app_password="$REGISTRY_APP_PASSWORD" <<'SQL'
CREATE ROLE registry_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE registry_app LOGIN PASSWORD :'app_password';
CREATE DATABASE registry OWNER registry_owner;
REVOKE ALL ON DATABASE registry FROM PUBLIC;
GRANT CONNECT ON DATABASE registry TO registry_app;
SQL

psql --set ON_ERROR_STOP=1 --username postgres --dbname registry \
  --command "CREATE EXTENSION IF NOT EXISTS vector"

-- What arrives, as it arrives: tables for the files, and lines of text taken apart.

CREATE TABLE bronze.batch_date (batch INT NOT NULL, day DATE NOT NULL);
CREATE TABLE bronze.dates (
    sk_date BIGINT NOT NULL, day DATE NOT NULL, description VARCHAR, year INT, quarter INT, month INT, week INT,
    day_of_week INT, fiscal_year INT, fiscal_quarter INT, is_holiday BOOLEAN);
CREATE TABLE bronze.times (
    sk_time BIGINT NOT NULL, time_text VARCHAR, hour INT NOT NULL, minute INT NOT NULL, second INT NOT NULL,
    is_market_hours BOOLEAN, is_office_hours BOOLEAN);
CREATE TABLE bronze.industry (id VARCHAR NOT NULL, name VARCHAR, sector VARCHAR);
CREATE TABLE bronze.status_type (id VARCHAR NOT NULL, name VARCHAR);
CREATE TABLE bronze.tax_rate (id VARCHAR NOT NULL, name VARCHAR, rate DECIMAL(6, 5));
CREATE TABLE bronze.trade_type (id VARCHAR NOT NULL, name VARCHAR, is_sell BOOLEAN, is_market BOOLEAN);
CREATE TABLE bronze.hr (
    employee_id BIGINT NOT NULL, manager_id BIGINT, first_name VARCHAR, last_name VARCHAR, middle_initial VARCHAR,
    job_code INT, branch VARCHAR, office VARCHAR, phone VARCHAR);
CREATE TABLE bronze.finwire (line VARCHAR NOT NULL);
CREATE TABLE bronze.customer_mgmt (
    action_type VARCHAR NOT NULL, action_at TIMESTAMP NOT NULL, customer_id BIGINT NOT NULL, tax_id VARCHAR,
    gender VARCHAR, tier INT, dob DATE, last_name VARCHAR, first_name VARCHAR, middle_initial VARCHAR,
    address_1 VARCHAR, address_2 VARCHAR, postal_code VARCHAR, city VARCHAR, state VARCHAR, country VARCHAR,
    email_1 VARCHAR, email_2 VARCHAR, phone_country VARCHAR, phone_area VARCHAR, phone_local VARCHAR,
    phone_extension VARCHAR, local_tax_id VARCHAR, national_tax_id VARCHAR, account_id BIGINT, tax_status INT,
    broker_id BIGINT, account_name VARCHAR);
CREATE TABLE bronze.customer (
    batch INT NOT NULL, cdc_flag VARCHAR, cdc_dsn BIGINT, customer_id BIGINT NOT NULL, tax_id VARCHAR,
    status_id VARCHAR, last_name VARCHAR, first_name VARCHAR, middle_initial VARCHAR, gender VARCHAR, tier INT,
    dob DATE, address_1 VARCHAR, address_2 VARCHAR, postal_code VARCHAR, city VARCHAR, state VARCHAR,
    country VARCHAR, email_1 VARCHAR, email_2 VARCHAR, phone_country VARCHAR, phone_area VARCHAR,
    phone_local VARCHAR, phone_extension VARCHAR, local_tax_id VARCHAR, national_tax_id VARCHAR);
CREATE TABLE bronze.account (
    batch INT NOT NULL, cdc_flag VARCHAR, cdc_dsn BIGINT, account_id BIGINT NOT NULL, broker_id BIGINT,
    customer_id BIGINT NOT NULL, account_name VARCHAR, tax_status INT, status_id VARCHAR);
CREATE TABLE bronze.trade (
    batch INT NOT NULL, cdc_flag VARCHAR, cdc_dsn BIGINT, trade_id BIGINT NOT NULL, event_at TIMESTAMP NOT NULL,
    status_id VARCHAR NOT NULL, trade_type_id VARCHAR NOT NULL, is_cash BOOLEAN, symbol VARCHAR NOT NULL,
    quantity BIGINT, bid_price DECIMAL(8, 2), account_id BIGINT NOT NULL, executor VARCHAR,
    trade_price DECIMAL(8, 2), fee DECIMAL(10, 2), commission DECIMAL(10, 2), tax DECIMAL(10, 2));
CREATE TABLE bronze.trade_history (
    trade_id BIGINT NOT NULL, event_at TIMESTAMP NOT NULL, status_id VARCHAR NOT NULL);
CREATE TABLE bronze.cash_transaction (
    batch INT NOT NULL, account_id BIGINT NOT NULL, paid_at TIMESTAMP NOT NULL, amount DECIMAL(10, 2) NOT NULL,
    name VARCHAR);
CREATE TABLE bronze.holding_history (
    batch INT NOT NULL, first_trade_id BIGINT NOT NULL, trade_id BIGINT NOT NULL, quantity_before BIGINT,
    quantity_after BIGINT);
CREATE TABLE bronze.daily_market (
    batch INT NOT NULL, day DATE NOT NULL, symbol VARCHAR NOT NULL, close DECIMAL(8, 2) NOT NULL,
    high DECIMAL(8, 2) NOT NULL, low DECIMAL(8, 2) NOT NULL, volume BIGINT NOT NULL);
CREATE TABLE bronze.watch_history (
    batch INT NOT NULL, customer_id BIGINT NOT NULL, symbol VARCHAR NOT NULL, watched_at TIMESTAMP NOT NULL,
    action VARCHAR NOT NULL);
CREATE TABLE bronze.prospect (
    batch INT NOT NULL, agency_id VARCHAR NOT NULL, last_name VARCHAR, first_name VARCHAR, middle_initial VARCHAR,
    gender VARCHAR, address_1 VARCHAR, address_2 VARCHAR, postal_code VARCHAR, city VARCHAR, state VARCHAR,
    country VARCHAR, phone VARCHAR, income BIGINT, number_cars INT, number_children INT, marital_status VARCHAR,
    age INT, credit_rating INT, own_or_rent VARCHAR, employer VARCHAR, number_credit_cards INT, net_worth BIGINT);

CREATE VIEW bronze.finwire_records AS
    SELECT
        CAST(
            substring(line, 1, 4) || '-' || substring(line, 5, 2) || '-' || substring(line, 7, 2) || ' '
            || substring(line, 10, 2) || ':' || substring(line, 12, 2) || ':' || substring(line, 14, 2) AS TIMESTAMP
        ) AS posted_at,
        substring(line, 16, 3) AS kind,
        substring(line, 19, 600) AS rest
    FROM bronze.finwire;

CREATE VIEW bronze.finwire_companies AS
    SELECT
        posted_at,
        trim(substring(rest, 1, 60)) AS name,
        CAST(substring(rest, 61, 10) AS BIGINT) AS cik,
        substring(rest, 71, 4) AS status_id,
        substring(rest, 75, 2) AS industry_id,
        trim(substring(rest, 77, 4)) AS sp_rating,
        CASE
            WHEN trim(substring(rest, 81, 8)) <> '' THEN CAST(
                substring(rest, 81, 4) || '-' || substring(rest, 85, 2) || '-' || substring(rest, 87, 2) AS DATE)
        END AS founded,
        trim(substring(rest, 89, 80)) AS address_1,
        nullif(trim(substring(rest, 169, 80)), '') AS address_2,
        trim(substring(rest, 249, 12)) AS postal_code,
        trim(substring(rest, 261, 25)) AS city,
        trim(substring(rest, 286, 20)) AS state,
        nullif(trim(substring(rest, 306, 24)), '') AS country,
        trim(substring(rest, 330, 46)) AS ceo,
        trim(substring(rest, 376, 150)) AS description
    FROM bronze.finwire_records
    WHERE kind = 'CMP';

CREATE VIEW bronze.finwire_securities AS
    SELECT
        posted_at,
        trim(substring(rest, 1, 15)) AS symbol,
        trim(substring(rest, 16, 6)) AS issue,
        substring(rest, 22, 4) AS status_id,
        trim(substring(rest, 26, 70)) AS name,
        trim(substring(rest, 96, 6)) AS exchange_id,
        CAST(substring(rest, 102, 13) AS BIGINT) AS shares_outstanding,
        CAST(substring(rest, 115, 4) || '-' || substring(rest, 119, 2) || '-' || substring(rest, 121, 2) AS DATE)
            AS first_trade,
        CAST(trim(substring(rest, 131, 12)) AS DECIMAL(12, 2)) AS dividend,
        trim(substring(rest, 143, 60)) AS company
    FROM bronze.finwire_records
    WHERE kind = 'SEC';

CREATE VIEW bronze.finwire_financials AS
    SELECT
        posted_at,
        CAST(substring(rest, 1, 4) AS INT) AS year,
        CAST(substring(rest, 5, 1) AS INT) AS quarter,
        CAST(substring(rest, 6, 4) || '-' || substring(rest, 10, 2) || '-' || substring(rest, 12, 2) AS DATE)
            AS quarter_start,
        CAST(trim(substring(rest, 22, 17)) AS DECIMAL(17, 2)) AS revenue,
        CAST(trim(substring(rest, 39, 17)) AS DECIMAL(17, 2)) AS earnings,
        CAST(trim(substring(rest, 56, 12)) AS DECIMAL(12, 2)) AS eps,
        CAST(trim(substring(rest, 68, 12)) AS DECIMAL(12, 2)) AS diluted_eps,
        CAST(trim(substring(rest, 80, 12)) AS DECIMAL(12, 2)) AS margin,
        CAST(trim(substring(rest, 92, 17)) AS DECIMAL(17, 2)) AS inventory,
        CAST(trim(substring(rest, 109, 17)) AS DECIMAL(17, 2)) AS assets,
        CAST(trim(substring(rest, 126, 17)) AS DECIMAL(17, 2)) AS liabilities,
        CAST(substring(rest, 143, 13) AS BIGINT) AS shares,
        CAST(substring(rest, 156, 13) AS BIGINT) AS diluted_shares,
        trim(substring(rest, 169, 60)) AS company
    FROM bronze.finwire_records
    WHERE kind = 'FIN';

CREATE VIEW bronze.customer_changes AS
    SELECT
        customer_id, action_at AS changed_at,
        CASE action_type WHEN 'NEW' THEN 'ACTV' WHEN 'INACT' THEN 'INAC' END AS status_id,
        tax_id, last_name, first_name, middle_initial, gender, tier, dob, address_1, address_2, postal_code, city,
        state, country, email_1, email_2, phone_country, phone_area, phone_local, phone_extension, local_tax_id,
        national_tax_id, 1 AS batch
    FROM bronze.customer_mgmt
    WHERE action_type IN ('NEW', 'UPDCUST', 'INACT')
    UNION ALL
    SELECT
        customer_id, CAST(d.day AS TIMESTAMP), status_id, tax_id, last_name, first_name, middle_initial, gender, tier,
        dob, address_1, address_2, postal_code, city, state, country, email_1, email_2, phone_country, phone_area,
        phone_local, phone_extension, local_tax_id, national_tax_id, batch
    FROM bronze.customer JOIN bronze.batch_date d USING (batch);

CREATE VIEW bronze.account_changes AS
    SELECT
        account_id, action_at AS changed_at,
        CASE action_type WHEN 'NEW' THEN 'ACTV' WHEN 'ADDACCT' THEN 'ACTV' WHEN 'CLOSEACCT' THEN 'INAC' END
            AS status_id,
        customer_id, broker_id, account_name, tax_status, 1 AS batch
    FROM bronze.customer_mgmt
    WHERE action_type IN ('NEW', 'ADDACCT', 'UPDACCT', 'CLOSEACCT')
    UNION ALL
    SELECT
        account_id, CAST(d.day AS TIMESTAMP), status_id, customer_id, broker_id, account_name, tax_status, batch
    FROM bronze.account JOIN bronze.batch_date d USING (batch);

CREATE VIEW bronze.trade_events AS
    SELECT h.trade_id, h.event_at, h.status_id, 1 AS batch FROM bronze.trade_history h
    UNION ALL
    SELECT trade_id, event_at, status_id, batch FROM bronze.trade WHERE batch > 1;

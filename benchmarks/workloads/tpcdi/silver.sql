-- What it means: versions with the time from which and until which they hold, events joined to what they are about.

CREATE VIEW silver.brokers AS
    SELECT
        employee_id AS broker_id, manager_id, first_name, last_name, middle_initial, branch, office, phone,
        (SELECT min(day) FROM bronze.dates) AS effective
    FROM bronze.hr
    WHERE job_code = 314;

CREATE VIEW silver.companies AS
    WITH versions AS (
        SELECT
            *,
            row_number() OVER w AS version,
            coalesce(lead(posted_at) OVER w, TIMESTAMP '9999-12-31 00:00:00') AS until
        FROM bronze.finwire_companies
        WINDOW w AS (PARTITION BY cik ORDER BY posted_at)
    )
    SELECT
        v.cik * 1000 + v.version AS sk_company, v.cik AS company_id, v.name, s.name AS status, i.name AS industry,
        v.sp_rating,
        v.sp_rating NOT IN (
            'AAA', 'AA', 'AA+', 'AA-', 'A', 'A+', 'A-', 'BBB', 'BBB+', 'BBB-') AS is_low_grade,
        v.founded, v.address_1, v.address_2, v.postal_code, v.city, v.state, v.country, v.ceo, v.description,
        v.posted_at AS effective, v.until, v.until = TIMESTAMP '9999-12-31 00:00:00' AS is_current
    FROM versions v
    JOIN bronze.status_type s ON v.status_id = s.id
    JOIN bronze.industry i ON v.industry_id = i.id;

CREATE VIEW silver.company_keys AS
    SELECT 'cik ' || CAST(company_id AS VARCHAR) AS named, sk_company, company_id, effective, until FROM silver.companies
    UNION ALL
    SELECT 'name ' || name, sk_company, company_id, effective, until FROM silver.companies;

CREATE VIEW silver.securities AS
    WITH versions AS (
        SELECT
            *,
            CASE
                WHEN substring(company, 1, 1) IN ('0', '1', '2', '3', '4', '5', '6', '7', '8', '9')
                    THEN 'cik ' || CAST(CAST(company AS BIGINT) AS VARCHAR)
                ELSE 'name ' || company
            END AS named,
            coalesce(lead(posted_at) OVER w, TIMESTAMP '9999-12-31 00:00:00') AS until
        FROM bronze.finwire_securities
        WINDOW w AS (PARTITION BY symbol ORDER BY posted_at)
    ),
    in_company AS (
        SELECT
            v.symbol, v.issue, v.status_id, v.name, v.exchange_id, c.sk_company, c.company_id, v.shares_outstanding,
            v.first_trade, v.dividend,
            greatest(v.posted_at, c.effective) AS effective, least(v.until, c.until) AS until
        FROM versions v
        JOIN silver.company_keys c ON v.named = c.named AND v.posted_at < c.until AND c.effective < v.until
    )
    SELECT
        c.symbol || '.' || CAST(row_number() OVER (PARTITION BY c.symbol ORDER BY c.effective) AS VARCHAR)
            AS sk_security,
        c.symbol, c.issue, s.name AS status, c.name, c.exchange_id, c.sk_company, c.company_id, c.shares_outstanding,
        c.first_trade, c.dividend, c.effective, c.until, c.until = TIMESTAMP '9999-12-31 00:00:00' AS is_current
    FROM in_company c
    JOIN bronze.status_type s ON c.status_id = s.id;

CREATE VIEW silver.financials AS
    WITH named AS (
        SELECT
            *,
            CASE
                WHEN substring(company, 1, 1) IN ('0', '1', '2', '3', '4', '5', '6', '7', '8', '9')
                    THEN 'cik ' || CAST(CAST(company AS BIGINT) AS VARCHAR)
                ELSE 'name ' || company
            END AS named
        FROM bronze.finwire_financials
    )
    SELECT
        c.sk_company, c.company_id, f.year, f.quarter, f.quarter_start, f.revenue, f.earnings, f.eps, f.diluted_eps,
        f.margin, f.inventory, f.assets, f.liabilities, f.shares, f.diluted_shares
    FROM named f
    JOIN silver.company_keys c ON f.named = c.named AND f.posted_at >= c.effective AND f.posted_at < c.until;

CREATE VIEW silver.year_earnings AS
    SELECT
        company_id, quarter_start,
        CASE WHEN quarter = 4 THEN year + 1 ELSE year END AS next_year,
        CASE WHEN quarter = 4 THEN 1 ELSE quarter + 1 END AS next_quarter,
        sum(eps) OVER (w ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS eps,
        count(eps) OVER (w ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS quarters
    FROM silver.financials
    WINDOW w AS (PARTITION BY company_id ORDER BY quarter_start);

CREATE VIEW silver.customers AS
    WITH filled AS (
        SELECT
            customer_id, changed_at AS effective, batch,
            row_number() OVER w AS version,
            coalesce(lead(changed_at) OVER w, TIMESTAMP '9999-12-31 00:00:00') AS until,
            last_value(status_id IGNORE NULLS) OVER s AS status_id,
            last_value(tax_id IGNORE NULLS) OVER s AS tax_id,
            last_value(last_name IGNORE NULLS) OVER s AS last_name,
            last_value(first_name IGNORE NULLS) OVER s AS first_name,
            last_value(middle_initial IGNORE NULLS) OVER s AS middle_initial,
            last_value(gender IGNORE NULLS) OVER s AS gender,
            last_value(tier IGNORE NULLS) OVER s AS tier,
            last_value(dob IGNORE NULLS) OVER s AS dob,
            last_value(address_1 IGNORE NULLS) OVER s AS address_1,
            last_value(address_2 IGNORE NULLS) OVER s AS address_2,
            last_value(postal_code IGNORE NULLS) OVER s AS postal_code,
            last_value(city IGNORE NULLS) OVER s AS city,
            last_value(state IGNORE NULLS) OVER s AS state,
            last_value(country IGNORE NULLS) OVER s AS country,
            last_value(email_1 IGNORE NULLS) OVER s AS email_1,
            last_value(email_2 IGNORE NULLS) OVER s AS email_2,
            last_value(phone_country IGNORE NULLS) OVER s AS phone_country,
            last_value(phone_area IGNORE NULLS) OVER s AS phone_area,
            last_value(phone_local IGNORE NULLS) OVER s AS phone_local,
            last_value(phone_extension IGNORE NULLS) OVER s AS phone_extension,
            last_value(local_tax_id IGNORE NULLS) OVER s AS local_tax_id,
            last_value(national_tax_id IGNORE NULLS) OVER s AS national_tax_id
        FROM bronze.customer_changes
        WINDOW
            w AS (PARTITION BY customer_id ORDER BY changed_at),
            s AS (PARTITION BY customer_id ORDER BY changed_at ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
    )
    SELECT
        f.customer_id * 1000 + f.version AS sk_customer, f.customer_id, f.tax_id, s.name AS status, f.last_name,
        f.first_name, f.middle_initial, CASE WHEN upper(f.gender) IN ('M', 'F') THEN upper(f.gender) ELSE 'U' END AS gender,
        f.tier, f.dob, f.address_1, f.address_2, f.postal_code, f.city, f.state, f.country,
        CASE
            WHEN f.phone_local IS NOT NULL THEN
                CASE WHEN f.phone_country IS NOT NULL THEN '+' || f.phone_country || ' ' ELSE '' END
                || CASE WHEN f.phone_area IS NOT NULL THEN '(' || f.phone_area || ') ' ELSE '' END
                || f.phone_local || coalesce(f.phone_extension, '')
        END AS phone,
        f.email_1, f.email_2, f.local_tax_id, f.national_tax_id, f.batch, f.effective, f.until,
        f.until = TIMESTAMP '9999-12-31 00:00:00' AS is_current
    FROM filled f
    JOIN bronze.status_type s ON f.status_id = s.id;

CREATE VIEW silver.accounts AS
    WITH filled AS (
        SELECT
            account_id, changed_at AS effective, batch,
            coalesce(lead(changed_at) OVER w, TIMESTAMP '9999-12-31 00:00:00') AS until,
            last_value(status_id IGNORE NULLS) OVER s AS status_id,
            last_value(customer_id IGNORE NULLS) OVER s AS customer_id,
            last_value(broker_id IGNORE NULLS) OVER s AS broker_id,
            last_value(account_name IGNORE NULLS) OVER s AS account_name,
            last_value(tax_status IGNORE NULLS) OVER s AS tax_status
        FROM bronze.account_changes
        WINDOW
            w AS (PARTITION BY account_id ORDER BY changed_at),
            s AS (PARTITION BY account_id ORDER BY changed_at ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
    )
    SELECT f.*, s.name AS status FROM filled f JOIN bronze.status_type s ON f.status_id = s.id;

CREATE VIEW silver.trade_times AS
    SELECT
        trade_id,
        min(event_at) AS created_at,
        min(event_at) FILTER (WHERE status_id IN ('CMPT', 'CNCL')) AS closed_at,
        min(batch) AS batch
    FROM bronze.trade_events
    GROUP BY trade_id;

CREATE VIEW silver.trades AS
    WITH latest AS (
        SELECT * FROM bronze.trade
        QUALIFY row_number() OVER (PARTITION BY trade_id ORDER BY batch DESC) = 1
    )
    SELECT
        l.trade_id, t.created_at, t.closed_at, l.status_id, l.trade_type_id, l.is_cash, l.symbol, l.quantity,
        l.bid_price, l.account_id, l.executor, l.trade_price, l.fee, l.commission, l.tax, t.batch
    FROM latest l
    JOIN silver.trade_times t USING (trade_id);

CREATE VIEW silver.cash_days AS
    SELECT account_id, CAST(paid_at AS DATE) AS day, sum(amount) AS amount, min(batch) AS batch
    FROM bronze.cash_transaction
    GROUP BY account_id, CAST(paid_at AS DATE);

CREATE VIEW silver.market_year AS
    SELECT
        batch, day, symbol, close, high, low, volume,
        max(high) OVER y AS year_high,
        min(low) OVER y AS year_low
    FROM bronze.daily_market
    WINDOW y AS (PARTITION BY symbol ORDER BY day RANGE BETWEEN INTERVAL 364 DAYS PRECEDING AND CURRENT ROW);

CREATE VIEW silver.year_high_days AS
    SELECT m.symbol, m.day, min(h.day) AS high_day
    FROM silver.market_year m
    JOIN bronze.daily_market h
        ON m.symbol = h.symbol AND m.year_high = h.high AND h.day <= m.day AND h.day >= m.day - INTERVAL 364 DAYS
    GROUP BY m.symbol, m.day;

CREATE VIEW silver.year_low_days AS
    SELECT m.symbol, m.day, min(l.day) AS low_day
    FROM silver.market_year m
    JOIN bronze.daily_market l
        ON m.symbol = l.symbol AND m.year_low = l.low AND l.day <= m.day AND l.day >= m.day - INTERVAL 364 DAYS
    GROUP BY m.symbol, m.day;

CREATE VIEW silver.watches AS
    SELECT
        customer_id, symbol,
        min(watched_at) FILTER (WHERE action = 'ACTV') AS placed_at,
        max(watched_at) FILTER (WHERE action = 'CNCL') AS removed_at,
        min(batch) AS batch
    FROM bronze.watch_history
    GROUP BY customer_id, symbol;

CREATE VIEW silver.prospects AS
    WITH latest AS (
        SELECT *, min(batch) OVER (PARTITION BY agency_id) AS first_batch
        FROM bronze.prospect
        QUALIFY row_number() OVER (PARTITION BY agency_id ORDER BY batch DESC) = 1
    )
    SELECT
        *,
        upper(last_name) || '|' || upper(first_name) || '|' || upper(address_1) || '|'
        || upper(coalesce(address_2, '')) || '|' || upper(postal_code) AS who,
        nullif(
            CASE WHEN net_worth > 1000000 OR income > 200000 THEN '+HighValue' ELSE '' END
            || CASE WHEN number_children > 3 OR number_credit_cards > 5 THEN '+Expenses' ELSE '' END
            || CASE WHEN age > 45 THEN '+Boomer' ELSE '' END
            || CASE WHEN income < 50000 OR credit_rating < 600 OR net_worth < 100000 THEN '+MoneyAlert' ELSE '' END
            || CASE WHEN number_cars > 3 OR number_credit_cards > 7 THEN '+Spender' ELSE '' END
            || CASE WHEN age < 25 AND net_worth > 1000000 THEN '+Inherited' ELSE '' END,
            '') AS marketing_nameplate
    FROM latest;

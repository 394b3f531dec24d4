-- What is asked: dimensions, facts, and some questions of those who read them.

CREATE MATERIALIZED VIEW gold.dim_date AS SELECT * FROM bronze.dates;
CREATE MATERIALIZED VIEW gold.dim_time AS SELECT * FROM bronze.times;
CREATE MATERIALIZED VIEW gold.industry AS SELECT * FROM bronze.industry;
CREATE MATERIALIZED VIEW gold.status_type AS SELECT * FROM bronze.status_type;
CREATE MATERIALIZED VIEW gold.tax_rate AS SELECT * FROM bronze.tax_rate;
CREATE MATERIALIZED VIEW gold.trade_type AS SELECT * FROM bronze.trade_type;
CREATE MATERIALIZED VIEW gold.dim_broker AS SELECT * FROM silver.brokers;
CREATE MATERIALIZED VIEW gold.dim_company AS SELECT * FROM silver.companies;
CREATE MATERIALIZED VIEW gold.dim_security AS SELECT * FROM silver.securities;
CREATE MATERIALIZED VIEW gold.financial AS SELECT * FROM silver.financials;

CREATE MATERIALIZED VIEW gold.dim_customer AS
    SELECT
        c.sk_customer, c.customer_id, c.tax_id, c.status, c.last_name, c.first_name, c.middle_initial, c.gender, c.tier,
        c.dob, c.address_1, c.address_2, c.postal_code, c.city, c.state, c.country, c.phone, c.email_1, c.email_2,
        n.name AS national_tax, n.rate AS national_tax_rate, l.name AS local_tax, l.rate AS local_tax_rate,
        p.agency_id, p.credit_rating, p.net_worth, p.marketing_nameplate, c.batch, c.effective, c.until, c.is_current
    FROM silver.customers c
    LEFT JOIN bronze.tax_rate n ON c.national_tax_id = n.id
    LEFT JOIN bronze.tax_rate l ON c.local_tax_id = l.id
    LEFT JOIN silver.prospects p
        ON c.is_current
        AND p.who = upper(c.last_name) || '|' || upper(c.first_name) || '|' || upper(c.address_1) || '|'
            || upper(coalesce(c.address_2, '')) || '|' || upper(c.postal_code);

CREATE MATERIALIZED VIEW gold.dim_account AS
    WITH parts AS (
        SELECT
            a.account_id, a.broker_id, c.sk_customer, c.customer_id, a.status, a.account_name, a.tax_status, a.batch,
            greatest(a.effective, c.effective) AS effective, least(a.until, c.until) AS until
        FROM silver.accounts a
        JOIN silver.customers c
            ON a.customer_id = c.customer_id AND a.effective < c.until AND c.effective < a.until
    )
    SELECT
        account_id * 1000 + row_number() OVER (PARTITION BY account_id ORDER BY effective) AS sk_account, *,
        until = TIMESTAMP '9999-12-31 00:00:00' AS is_current
    FROM parts;

CREATE MATERIALIZED VIEW gold.dim_trade AS
    SELECT
        t.trade_id, a.sk_account, a.sk_customer, a.broker_id, s.sk_security, s.sk_company,
        d.sk_date AS sk_create_date, m.sk_time AS sk_create_time, e.sk_date AS sk_close_date, n.sk_time AS sk_close_time,
        st.name AS status, tt.name AS type, t.is_cash, t.quantity, t.bid_price, t.executor, t.trade_price, t.fee,
        t.commission, t.tax, t.batch
    FROM silver.trades t
    JOIN bronze.status_type st ON t.status_id = st.id
    JOIN bronze.trade_type tt ON t.trade_type_id = tt.id
    JOIN gold.dim_security s ON t.symbol = s.symbol AND t.created_at >= s.effective AND t.created_at < s.until
    JOIN gold.dim_account a ON t.account_id = a.account_id AND t.created_at >= a.effective AND t.created_at < a.until
    JOIN bronze.dates d ON d.day = CAST(t.created_at AS DATE)
    JOIN bronze.times m
        ON m.hour = hour(t.created_at) AND m.minute = minute(t.created_at) AND m.second = second(t.created_at)
    LEFT JOIN bronze.dates e ON e.day = CAST(t.closed_at AS DATE)
    LEFT JOIN bronze.times n
        ON n.hour = hour(t.closed_at) AND n.minute = minute(t.closed_at) AND n.second = second(t.closed_at);

CREATE MATERIALIZED VIEW gold.fact_cash_balances AS
    SELECT
        a.sk_customer, a.sk_account, d.sk_date, c.batch,
        sum(c.amount) OVER (PARTITION BY c.account_id ORDER BY c.day ROWS UNBOUNDED PRECEDING) AS cash
    FROM silver.cash_days c
    JOIN bronze.dates d USING (day)
    JOIN gold.dim_account a ON c.account_id = a.account_id
        AND c.day >= CAST(a.effective AS DATE) AND c.day < CAST(a.until AS DATE);

CREATE MATERIALIZED VIEW gold.fact_holdings AS
    SELECT
        h.first_trade_id, h.trade_id, t.sk_customer, t.sk_account, t.sk_security, t.sk_company,
        t.sk_close_date AS sk_date, t.sk_close_time AS sk_time, t.trade_price AS price,
        h.quantity_after AS holding, h.batch
    FROM bronze.holding_history h
    JOIN gold.dim_trade t USING (trade_id);

CREATE MATERIALIZED VIEW gold.fact_watches AS
    SELECT c.sk_customer, s.sk_security, d.sk_date AS sk_date_placed, e.sk_date AS sk_date_removed, w.batch
    FROM silver.watches w
    JOIN silver.customers c
        ON w.customer_id = c.customer_id AND w.placed_at >= c.effective AND w.placed_at < c.until
    JOIN gold.dim_security s ON w.symbol = s.symbol AND w.placed_at >= s.effective AND w.placed_at < s.until
    JOIN bronze.dates d ON d.day = CAST(w.placed_at AS DATE)
    LEFT JOIN bronze.dates e ON e.day = CAST(w.removed_at AS DATE);

CREATE MATERIALIZED VIEW gold.fact_market_history AS
    SELECT
        s.sk_security, s.sk_company, d.sk_date,
        m.close / nullif(y.eps, 0) AS pe_ratio,
        CASE WHEN m.close > 0 THEN s.dividend / m.close * 100 END AS yield,
        m.year_high, h.sk_date AS sk_year_high_date, m.year_low, l.sk_date AS sk_year_low_date,
        m.close, m.high, m.low, m.volume, m.batch
    FROM silver.market_year m
    JOIN gold.dim_security s ON m.symbol = s.symbol AND m.day >= CAST(s.effective AS DATE) AND m.day < CAST(s.until AS DATE)
    JOIN bronze.dates d ON m.day = d.day
    JOIN silver.year_high_days hd ON m.symbol = hd.symbol AND m.day = hd.day
    JOIN bronze.dates h ON hd.high_day = h.day
    JOIN silver.year_low_days ld ON m.symbol = ld.symbol AND m.day = ld.day
    JOIN bronze.dates l ON ld.low_day = l.day
    LEFT JOIN silver.year_earnings y
        ON y.company_id = s.company_id AND y.quarters = 4 AND y.next_year = d.year AND y.next_quarter = d.quarter;

CREATE MATERIALIZED VIEW gold.prospect AS
    WITH customers AS (
        SELECT DISTINCT
            upper(last_name) || '|' || upper(first_name) || '|' || upper(address_1) || '|'
            || upper(coalesce(address_2, '')) || '|' || upper(postal_code) AS who
        FROM silver.customers
        WHERE is_current AND status = 'Active'
    )
    SELECT
        p.agency_id, u.sk_date AS sk_record_date, f.sk_date AS sk_first_date,
        EXISTS (SELECT 1 FROM customers c WHERE c.who = p.who) AS is_customer,
        p.last_name, p.first_name, p.middle_initial, p.gender, p.address_1, p.address_2, p.postal_code, p.city, p.state,
        p.country, p.phone, p.income, p.number_cars, p.number_children, p.marital_status, p.age, p.credit_rating,
        p.own_or_rent, p.employer, p.number_credit_cards, p.net_worth, p.marketing_nameplate, p.batch
    FROM silver.prospects p
    JOIN bronze.batch_date b ON p.batch = b.batch
    JOIN bronze.dates u ON b.day = u.day
    JOIN bronze.batch_date g ON p.first_batch = g.batch
    JOIN bronze.dates f ON g.day = f.day;

CREATE MATERIALIZED VIEW gold.di_messages AS
    SELECT 'DimCustomer' AS source, 'Invalid customer tier' AS message, CAST(customer_id AS VARCHAR) AS about, batch
    FROM silver.customers WHERE tier NOT IN (1, 2, 3) OR tier IS NULL
    UNION ALL
    SELECT 'DimCustomer', 'DOB out of range', CAST(c.customer_id AS VARCHAR), c.batch
    FROM silver.customers c JOIN bronze.batch_date b USING (batch)
    WHERE c.dob > b.day OR c.dob < b.day - INTERVAL 36525 DAYS
    UNION ALL
    SELECT 'DimTrade', 'Invalid trade commission', CAST(trade_id AS VARCHAR), batch
    FROM silver.trades WHERE commission > quantity * trade_price
    UNION ALL
    SELECT 'DimTrade', 'Invalid trade fee', CAST(trade_id AS VARCHAR), batch
    FROM silver.trades WHERE fee > quantity * trade_price
    UNION ALL
    SELECT 'DimCompany', 'Invalid SPRating', CAST(company_id AS VARCHAR), 1
    FROM silver.companies
    WHERE sp_rating NOT IN (
        'AAA', 'AA', 'AA+', 'AA-', 'A', 'A+', 'A-', 'BBB', 'BBB+', 'BBB-', 'BB', 'BB+', 'BB-', 'B', 'B+', 'B-', 'CCC',
        'CCC+', 'CCC-', 'CC', 'C', 'D')
    UNION ALL
    SELECT 'FactMarketHistory', 'No earnings for company', sk_security, batch
    FROM gold.fact_market_history WHERE pe_ratio IS NULL;

CREATE MATERIALIZED VIEW gold.audit AS
    SELECT 'DimCustomer' AS loaded, batch, count(*) AS n, count(DISTINCT customer_id) AS entities
    FROM gold.dim_customer GROUP BY batch
    UNION ALL
    SELECT 'DimAccount', batch, count(*), count(DISTINCT account_id) FROM gold.dim_account GROUP BY batch
    UNION ALL
    SELECT 'DimTrade', batch, count(*), count(DISTINCT trade_id) FROM gold.dim_trade GROUP BY batch
    UNION ALL
    SELECT 'FactHoldings', batch, count(*), count(DISTINCT trade_id) FROM gold.fact_holdings GROUP BY batch
    UNION ALL
    SELECT 'FactMarketHistory', batch, count(*), count(DISTINCT sk_security) FROM gold.fact_market_history GROUP BY batch;

CREATE MATERIALIZED VIEW gold.broker_months AS
    SELECT
        b.broker_id, b.last_name, b.branch, d.year, d.month, count(*) AS trades, sum(t.commission) AS commission,
        rank() OVER (PARTITION BY d.year, d.month ORDER BY sum(t.commission) DESC NULLS LAST) AS place
    FROM gold.dim_trade t
    JOIN gold.dim_broker b ON t.broker_id = b.broker_id
    JOIN gold.dim_date d ON t.sk_create_date = d.sk_date
    GROUP BY b.broker_id, b.last_name, b.branch, d.year, d.month;

CREATE MATERIALIZED VIEW gold.customer_value AS
    WITH latest AS (
        SELECT * FROM gold.fact_holdings QUALIFY row_number() OVER (PARTITION BY first_trade_id ORDER BY trade_id DESC) = 1
    )
    SELECT c.customer_id, count(*) AS positions, sum(l.holding) AS shares, sum(l.holding * l.price) AS value
    FROM latest l
    JOIN gold.dim_customer c ON l.sk_customer = c.sk_customer
    GROUP BY c.customer_id;

CREATE MATERIALIZED VIEW gold.movers AS
    SELECT sk_date, sk_security, volume, close
    FROM gold.fact_market_history
    QUALIFY row_number() OVER (PARTITION BY sk_date ORDER BY volume DESC, sk_security) <= 3;

CREATE MATERIALIZED VIEW gold.most_watched AS
    SELECT s.symbol, count(*) AS watches, count(w.sk_date_removed) AS removed
    FROM gold.fact_watches w
    JOIN gold.dim_security s ON w.sk_security = s.sk_security
    GROUP BY s.symbol
    ORDER BY watches DESC, s.symbol
    LIMIT 20;

CREATE MATERIALIZED VIEW gold.sector_days AS
    SELECT i.sector, m.sk_date, sum(m.volume) AS volume, max(m.close) AS highest, count(*) AS securities
    FROM gold.fact_market_history m
    JOIN gold.dim_company c ON m.sk_company = c.sk_company
    JOIN gold.industry i ON c.industry = i.name
    GROUP BY i.sector, m.sk_date;

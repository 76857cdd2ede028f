//! Made-up secrets of many kinds, to send in every field and to look for afterwards. Each is put
//! together from parts, so that no scanner takes this file for a leak; none ever opened anything.

/// One made-up secret.
pub(crate) struct Secret {
    /// What it is, in words.
    pub(crate) name: &'static str,
    /// As a sender would let it slip into a text.
    pub(crate) text: String,
    /// The part that must not be found anywhere afterwards.
    pub(crate) core: String,
}

/// Sixty characters that look random.
const NOISE: &str = "q7Zp2LxV9sKd4TfB8nWm3RgY6hJc1XvA5uQe0NyDo7PiMk2SjFt9GbUwEa4H";
/// Sixty-four hexadecimal digits that look random.
const HEX: &str = "7f3a9c1e5b8d2046f1c7a3e95d0b8642e9d1c3b5a7f80214c6e8a0b2d4f61935";

fn noise(from: usize, length: usize) -> String {
    NOISE.chars().cycle().skip(from).take(length).collect()
}

fn hex(from: usize, length: usize) -> String {
    HEX.chars().cycle().skip(from).take(length).collect()
}

/// All of them.
pub(crate) fn all() -> Vec<Secret> {
    let mut list = Vec::new();
    // (name, before the core, core, after the core)
    let mut add = |name: &'static str, before: &str, core: &str, after: &str| {
        list.push(Secret { name, text: [before, core, after].concat(), core: core.to_owned() });
    };
    add("bearer token", "Bearer ", &noise(0, 32), "");
    add("bearer token of plain words", "bearer ", "correcthorsebattery", "");
    add("authorization header", "Authorization: Bearer ", &noise(5, 24), "");
    add("basic auth header", "Authorization: Basic ", "QWxhZGRpbjpvcGVuIHNlc2FtZQ", "==");
    add("basic auth", "Basic ", "amFuZTpodW50ZXIyLWZha2U", "=");
    add("digest auth", "Digest username=\"jane\", nonce=\"x\", response=\"", &hex(0, 32), "\"");
    let sigv4 = [
        "AWS4-HMAC-SHA256 Credential=",
        "AKI",
        "AFAKE0000EXAMPLE/20261111/eu-west-1/s3/aws4_request, SignedHeaders=host, Signature=",
    ]
    .concat();
    add("signed AWS request", &sigv4, &hex(3, 64), "");
    let claims = [".eyJ", "zdWIiOiJqYW5lIiwiZmFrZSI6dHJ1ZX0."].concat();
    add("JWT", &["eyJ", "hbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"].concat(), &claims, &noise(9, 40));
    add("user and password in a URL", "https://jane:", "hunter2fake", "@api.example.com/v1");
    add("database URL", "postgres://svc:", "S3cretPwFake", "@db.example.com:5432/app");
    add("token as user of a URL", "https://", &noise(11, 30), "@git.example.com/a.git");
    add(
        "API key in a query string",
        "https://api.example.com/v1/x?api_key=",
        &noise(2, 20),
        "&page=2",
    );
    add("key in a query string", "/maps/api/geocode?key=", &noise(4, 39), "&address=x");
    add("access token in a query string", "/feed?access_token=", &noise(6, 30), "");
    add("short-lived signature", "/blob/a?sv=2024-11-04&se=2026-11-12&sig=", &noise(8, 40), "%3D");
    add("presigned URL", "/b/k?X-Amz-Date=20261111T072900Z&X-Amz-Signature=", &hex(7, 64), "");
    add("password in JSON", "{\"user\":\"jane\",\"password\":\"", "correct horse fake", "\"}");
    add("secret in JSON within JSON", "{\\\"client_secret\\\":\\\"", &noise(10, 24), "\\\"}");
    add("token in JSON", "{\"refreshToken\": \"", &noise(12, 28), "\"}");
    add("password of an environment", "DB_PASSWORD=", "hunter2-fake", "");
    add("password in prose", "the password: ", "hunter2fake", " was refused");
    add("API key header", "X-Api-Key: ", &noise(14, 32), "");
    add("cookie header", "Cookie: theme=dark; sid=", &noise(16, 26), "; a=b");
    add("set-cookie header", "Set-Cookie: shop=", &noise(18, 26), "; Path=/; HttpOnly");
    add("cookie with attributes", "visitor=", &noise(20, 26), "; Path=/; Secure; HttpOnly");
    add("session cookie", "sessionid=", &noise(22, 32), "");
    add("session in a path", "/cart;jsessionid=", &hex(9, 32), "");
    add("CSRF token", "csrf_token=", &noise(24, 32), "");
    add("one-time code", "otp=", "493817", "");
    add("OpenAI key", &["s", "k-"].concat(), &noise(26, 48), "");
    add("OpenAI project key", &["s", "k-proj-"].concat(), &noise(28, 60), "");
    add("Anthropic key", &["s", "k-ant-api03-"].concat(), &noise(30, 60), "-AA");
    add("Stripe secret key", &["s", "k_live_"].concat(), &noise(1, 24), "");
    add("Stripe restricted key", &["r", "k_live_"].concat(), &noise(3, 24), "");
    add("Stripe webhook secret", &["wh", "sec_"].concat(), &noise(5, 32), "");
    add("GitHub personal token", &["gh", "p_"].concat(), &noise(7, 36), "");
    add("GitHub OAuth token", &["gh", "o_"].concat(), &noise(9, 36), "");
    add("GitHub server token", &["gh", "s_"].concat(), &noise(13, 36), "");
    add("GitHub fine-grained token", &["github", "_pat_"].concat(), &noise(11, 59), "");
    add("GitLab token", &["gl", "pat-"].concat(), &noise(13, 20), "");
    add("AWS access key id", &["AK", "IA"].concat(), "IOSFODNN7FAKE000", "");
    add("AWS session key id", &["AS", "IA"].concat(), "Y34FZKBOKFAKE000", "");
    let aws_secret = ["wJalrXUtnFEMI/K7MDENG", "/bPxRfiCYFAKEFAKE00"].concat();
    add("AWS secret key", "", &aws_secret, "");
    add("AWS secret key in a file", "aws_secret_access_key = ", &aws_secret, "");
    add("Slack bot token", &["xo", "xb-"].concat(), &format!("1234567890-{}", noise(15, 24)), "");
    add("Slack user token", &["xo", "xp-"].concat(), &format!("1234567890-{}", noise(17, 24)), "");
    add("Slack app token", &["xa", "pp-"].concat(), &format!("1-A0FAKE-{}", hex(11, 64)), "");
    let slack_hook = ["https://hooks.slack.", "com/services/"].concat();
    add("Slack webhook", &slack_hook, &["T0FAKE000/B0FAKE000/", &noise(19, 24)].concat(), "");
    add("Google API key", &["AI", "za"].concat(), &noise(21, 35), "");
    add("Google OAuth token", &["ya", "29."].concat(), &noise(23, 50), "");
    add("Google OAuth secret", &["GOC", "SPX-"].concat(), &noise(25, 28), "");
    let sendgrid = format!("{}.{}", noise(27, 22), noise(29, 43));
    add("SendGrid key", &["S", "G."].concat(), &sendgrid, "");
    add("Twilio key", &["S", "K"].concat(), &hex(13, 32), "");
    add("Twilio account", &["A", "C"].concat(), &hex(15, 32), "");
    add("npm token", &["np", "m_"].concat(), &noise(31, 36), "");
    add("PyPI token", &["py", "pi-AgEIcHlwaS5vcmc"].concat(), &noise(33, 60), "");
    let discord = format!("{}.Fake01.{}", noise(35, 23), noise(37, 38));
    add("Discord bot token", "M", &discord, "");
    let discord_hook = ["https://discord.", "com/api/webhooks/"].concat();
    add("Discord webhook", &discord_hook, &format!("123456789012345678/{}", noise(39, 60)), "");
    add(
        "Telegram bot token",
        "https://api.telegram.org/bot",
        &format!("110201543:AA{}", noise(41, 33)),
        "/send",
    );
    add("Hugging Face token", &["h", "f_"].concat(), &noise(43, 34), "");
    add("DigitalOcean token", &["do", "p_v1_"].concat(), &hex(17, 64), "");
    add("Shopify token", &["shp", "at_"].concat(), &hex(19, 32), "");
    add("Vault token", &["hv", "s."].concat(), &noise(45, 40), "");
    add("Grafana token", &["gl", "sa_"].concat(), &noise(47, 32), "_0fa4e000");
    add("Databricks token", &["da", "pi"].concat(), &hex(21, 32), "");
    add("Mailgun key", &["ke", "y-"].concat(), &hex(23, 32), "");
    add("Mailchimp key", "", &hex(25, 32), "-us21");
    let pem = ["-----BEGIN RSA PRIVATE ", "KEY-----\n"].concat();
    add("private key", &pem, &noise(49, 64), "\n-----END RSA PRIVATE KEY-----");
    let ssh = ["-----BEGIN OPENSSH PRIVATE ", "KEY-----\\n"].concat();
    add("SSH key, cut short", &ssh, &noise(51, 64), "");
    let pgp = ["-----BEGIN PGP PRIVATE ", "KEY BLOCK-----\n\n"].concat();
    add("OpenPGP key", &pgp, &noise(53, 64), "\n-----END PGP PRIVATE KEY BLOCK-----");
    add("e-mail address", "", "jane.doe+fake@example.com", "");
    add("API key in a sentence", "Incorrect API key provided: ", &noise(2, 28), ".");
    add("key of words in a sentence", "Incorrect API key provided: ", "correcthorse", ". See docs");
    add("key that is called invalid", "Invalid key ", &noise(4, 20), "");
    add("short key in a sentence", "API key ", "abcd1234", " is not valid");
    add("quoted token in a sentence", "invalid token \"", &noise(6, 24), "\"");
    add("token in brackets", "the access token (", &noise(8, 24), ") has expired");
    add("key before its name", "'", &noise(10, 24), "' is not a valid API key");
    add("token with a colon in it", "token ", &format!("{}:{}", noise(12, 8), noise(14, 12)), "");
    add("secret in a sentence", "using secret ", &noise(16, 20), " for it");
    add("password in a sentence", "wrong password ", "hunter2fake7", " for jane");
    add("access token with a colon", "access_token: ", "abcdefghijkl", "");
    add("one-time code in a sentence", "Your verification code is ", "493817", "");
    add("DPoP token", "DPoP ", &noise(18, 32), "");
    add("Negotiate token", "Negotiate ", &noise(20, 40), "==");
    add("Hawk header", "Hawk id=\"dh37\", ts=\"1353832234\", mac=\"", &noise(22, 43), "=\"");
    add("signature of an Azure account", "SharedKey account1:", &noise(24, 43), "=");
    add("SAS token", "SharedAccessSignature sr=hub&sig=", &noise(26, 43), "%3D&se=1");
    add("element of XML", "<apiKey>", &noise(28, 12), "</apiKey>");
    add(
        "password of WS-Security",
        "<wsse:Password Type=\"#Text\">",
        "correct horse fake",
        "</wsse:Password>",
    );
    add("hidden field of a form", "<input name=\"csrf_token\" value=\"", &noise(30, 24), "\">");
    add("token in camel case", "{\"stripeToken\":\"", &noise(32, 20), "\"}");
    add("token in escaped HTML", "{&quot;access_token&quot;:&quot;", &noise(34, 20), "&quot;}");
    add("token after an escaped line break", "failed\\npassword=", "hunter2fake8", "");
    add("token after an escaped ampersand", "/x?a=1\\u0026token=", &noise(36, 20), "");
    add("authorization code", "/callback?code=", &noise(38, 22), "&state=x");
    add("authorization code in a form", "grant_type=authorization_code&code=", &noise(40, 22), "");
    add("token behind an encoded question mark", "/v1/x%3Ftoken=", &noise(42, 20), "");
    add("token in a URL encoded twice", "/v1/x%253Ftoken%253D", &noise(44, 20), "");
    add("link to reset a password", "https://app.example.com/reset/", &noise(46, 22), "");
    add("link to verify an address", "/verify/email/", &noise(48, 22), "?x=1");
    add("invitation", "/invite/", &hex(27, 32), "/accept");
    add("magic link", "/auth/magic-link/", &noise(50, 22), "");
    add("social security number", "SSN ", "219-09-9999", "");
    add("social security number without dashes", "ssn: ", "219099999", "");
    add("international e-mail address", "", "jörg.müller@bücher.example", "");
    add("e-mail address of another script", "", "пользователь@пример.рф", "");
    add("e-mail address in a path", "/users/", "jane.doe%40example.org", "/orders");
    add("password behind an arrow", "{\"password\"=>\"", "hunter2fakeA", "\"}");
    add("password of a form in brackets", "user[password]=", &noise(11, 14), "&x=1");
    add("password of an encoded form", "user%5Bpassword%5D=", &noise(13, 14), "&x=1");
    add("password that is repeated", "password_confirmation=", "hunter2fakeB", "");
    add("password of a joined name", "PGPASSWORD=", "hunter2fakeC", "");
    add("token of a joined name", "GITHUBTOKEN=", &noise(15, 20), "");
    add("secret that signs sessions", "secret_key_base: ", &hex(4, 64), "");
    add("second key of a list", "{\"api_keys\":[\"x\",\"", &noise(17, 16), "\"]}");
    add("secret within an object", "{\"secret\":{\"value\":\"", "hunter2fakeD", "\"}}");
    add("header field in a list", "[[\"x-api-key\",\"", &noise(19, 24), "\"]]");
    add("attribute of XML", "<password value=\"", "hunter2fakeE", "\"/>");
    add("answer of SAML", "SAMLResponse=", &noise(21, 48), "&RelayState=x");
    add("service ticket", "/cas?ticket=", "ST-1856339-aA5Yuvrxzpv8Tau1cYQ7", "");
    add("cookie of WordPress", "wordpress_logged_in_0a1b=", &noise(23, 30), "");
    add("data source of Go", "root:", "hunter2fakeF", "@tcp(db:3306)/app");
    add("password for curl", "curl -u admin:", "hunter2fakeG", " https://h.example/");
    add("link to log in", "/login/", &noise(25, 22), "");
    add("bank account in small letters", "", "tr330006100519786457841326", "");
    add("card number", "", "4111111111111111", "");
    add("card number in groups", "card ", "5555 5555 5555 4444", "");
    add("card number with dashes", "", "6011-1111-1111-1117", "");
    add("card number of fifteen digits", "pan=", "378282246310005", "");
    add("bank account", "IBAN ", "DE89 3704 0044 0532 0130 00", "");
    list
}

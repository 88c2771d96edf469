//! Errors as OpenAI and the servers that speak its dialects send them.

use super::*;

const RATE: Class = Class::RATE_LIMITED;
const AWAY: Class = Class::UNAVAILABLE;

fn overflow(limit: u64) -> Class {
    Class::Overflow {
        limit: Some(Tokens(limit)),
    }
}

#[track_caller]
fn check(status: u16, body: &str, class: Class, reason: &str) {
    let expected = Failure::new(class, reason);
    assert_eq!(refusal(status, body.as_bytes()), expected, "{body}");
}

#[test]
fn a_refused_key_may_have_the_status_of_a_wrong_request() {
    check(
        400,
        r#"{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xa***yz. You can obtain an API key from https://console.x.ai."}"#,
        Class::Unauthorised,
        "client specified an invalid argument: Incorrect API key provided: xa***yz. You can obtain an API key from https://console.x.ai",
    );
}

/// OpenAI, xAI, GLM, SiliconFlow, OpenRouter, Kimi and Alibaba: waiting does not help, and the key is right.
#[test]
fn a_used_up_credit_may_have_the_status_of_a_limit_or_of_a_refused_key() {
    for (status, body) in rows! {
        (
            403,
            r#"{"code":"The caller does not have permission to execute the specified operation","error":"Your newly created team doesn't have any credits or licenses yet. You can purchase those on https://console.x.ai/team/t."}"#,
        ),
        (
            429,
            r#"{"code":"Some resource has been exhausted","error":"Your team t has either used all available credits or reached its monthly spending limit. To continue making API requests, please purchase more credits or raise your spending limit."}"#,
        ),
        (
            429,
            r#"{"error":{"message":"The project reached its spend limit.","type":"rate_limit_error","code":"project_spend_limit_exceeded"}}"#,
        ),
        (
            429,
            r#"{"error":{"code":"1113","message":"Insufficient balance or no resource package. Please recharge."}}"#,
        ),
        (
            429,
            r#"{"error":{"code":"1113","message":"余额不足或无可用资源包,请充值。"}}"#,
        ),
        (
            403,
            r#"{"code":30001,"message":"Sorry, your account balance is insufficient","data":null}"#,
        ),
        (
            403,
            r#"{"error":{"message":"Key limit exceeded (total limit). Manage it using https://openrouter.ai/settings/keys","code":403}}"#,
        ),
        (
            429,
            r#"{"error":{"message":"Your account t is suspended due to insufficient balance","type":"exceeded_current_quota_error"}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"Access denied, please make sure your account is in good standing.","type":"Arrearage","param":null,"code":"Arrearage"}}"#,
        ),
    } {
        assert_eq!(
            refusal(status, body.as_bytes()).class,
            Class::OutOfQuota,
            "{body}"
        );
    }
    let denied = r#"{"code":"permission-denied","error":"Access to the chat endpoint is denied."}"#;
    assert_eq!(refusal(403, denied.as_bytes()).class, Class::Unauthorised);
}

/// GLM and Cloudflare: waiting for a minute does not help.
#[test]
fn limits_of_hours_or_days_are_used_up_quotas() {
    for body in [
        r#"{"error":{"code":"1308","message":"Usage limit reached for 5 hour. Your limit will reset at 2026-05-07 18:00:00"}}"#,
        r#"{"error":{"code":"1308","message":"已达到 5 小时的使用上限。您的限额将在 2026-05-07 18:00:00 重置。"}}"#,
        r#"{"error":{"code":"1310","message":"Weekly/Monthly Limit Exhausted. Your limit will reset at 2026-05-09 18:00:00"}}"#,
        r#"{"errors":[{"message":"you have used up your daily free allocation of 10,000 neurons, please upgrade to Cloudflare's Workers Paid plan if you would like to continue usage.","code":4006}],"success":false,"result":{},"messages":[]}"#,
    ] {
        let class = refusal(429, body.as_bytes()).class;
        assert_eq!(class, Class::OutOfQuota, "{body}");
    }
    let minute = r#"{"error":{"code":"1302","message":"Rate limit reached for requests"}}"#;
    assert_eq!(refusal(429, minute.as_bytes()).class, RATE);
}

#[test]
fn openai() {
    check(
        401,
        r#"{"error":{"message":"Incorrect API key provided: sk-abcde***wxyz. You can find your API key at https://platform.openai.com/account/api-keys.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#,
        Class::Unauthorised,
        "invalid_api_key: Incorrect API key provided: sk-abcde***wxyz. You can find your API key at https://platform.openai.com/account/api-keys",
    );
    check(
        403,
        r#"{"error":{"message":"Country, region, or territory not supported","type":"request_forbidden","code":"unsupported_country_region_territory"}}"#,
        Class::Unauthorised,
        "unsupported_country_region_territory: Country, region, or territory not supported",
    );
    check(
        404,
        r#"{"error":{"message":"The model `gpt-9` does not exist or you do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#,
        Class::UnknownModel,
        "model_not_found: The model `gpt-9` does not exist or you do not have access to it",
    );
    check(
        403,
        r#"{"error":{"message":"Project `p` does not have access to model `o9`","type":"invalid_request_error","code":"model_not_found"}}"#,
        Class::UnknownModel,
        "model_not_found: Project `p` does not have access to model `o9`",
    );
    check(
        429,
        r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
        Class::OutOfQuota,
        "insufficient_quota: You exceeded your current quota",
    );
    check(
        429,
        r#"{"error":{"message":"Rate limit reached for gpt-4o in organization o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2s.","type":"tokens","code":"rate_limit_exceeded"}}"#,
        RATE,
        "rate_limit_exceeded: Rate limit reached for gpt-4o in organization o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2s",
    );
    check(
        429,
        r#"{"error":{"message":"Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000.","type":"tokens","code":"rate_limit_exceeded"}}"#,
        Class::BadRequest,
        "rate_limit_exceeded: Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000",
    );
    check(
        500,
        r#"{"error":{"message":"The server had an error","type":"server_error","code":null}}"#,
        AWAY,
        "server_error: The server had an error",
    );
    check(
        400,
        r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}"#,
        Class::BadRequest,
        "unsupported_parameter: Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead",
    );
}

#[test]
fn windows_that_are_named() {
    for (message, limit) in rows! {
        (
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 8210 tokens.",
            8_192,
        ),
        (
            "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 289650 tokens.",
            272_000,
        ),
        (
            "This endpoint's maximum context length is 131,072 tokens. However, you requested about 150000 tokens",
            131_072,
        ),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 9000. This model's maximum context length is 8192 tokens and your request has 5 input tokens",
            8_192,
        ),
        (
            "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure",
            4_096,
        ),
        (
            "request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it",
            4_096,
        ),
        (
            "However, the model is loaded with context length of only 4096 tokens, which is not enough",
            4_096,
        ),
        ("Requested tokens (2285) exceed context window of 2048", 2_048),
        (
            "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
            131_072,
        ),
        (
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            1_048_576,
        ),
        (
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000",
            8_193,
        ),
        (
            "Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)",
            262_144,
        ),
        (
            "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
            129_024,
        ),
    } {
        let body = format!(r#"{{"error":{{"message":"{message}","code":400}}}}"#);
        let failure = refusal(400, body.as_bytes());
        assert_eq!(failure.class, overflow(limit), "{message}");
        assert_eq!(reported(body.as_bytes()).unwrap().class, overflow(limit));
    }
}

#[test]
fn windows_in_other_forms() {
    for (body, limit) in rows! {
        (
            r#"{"message":"Please reduce the length of the messages or completion. Current length is 69553 while limit is 65536","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}"#,
            65_536,
        ),
        (
            r#"{"error":{"code":"tokens_limit_reached","message":"Request body too large for gpt-4o model. Max size: 8000 tokens.","details":"Request body too large for gpt-4o model. Max size: 8000 tokens."}}"#,
            8_000,
        ),
        (
            r#"{"object":"error","message":"Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_error","param":null,"code":"3051"}"#,
            32_768,
        ),
        (
            r#"{"message":"too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 6354. Try using a shorter prompt."}"#,
            4_081,
        ),
        (
            r#"{"error":"Input validation error: `inputs` must have less than 4096 tokens. Given: 5012","error_type":"validation"}"#,
            4_096,
        ),
        (
            r#"[{"error":{"code":400,"message":"Unable to submit request because the input token count is 1251952 but model only supports up to 1048576. Reduce the input token count and try again.","status":"INVALID_ARGUMENT"}}]"#,
            1_048_576,
        ),
        (
            r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"prompt is too long: 207791 tokens > 200000 maximum\"}}"}}}"#,
            200_000,
        ),
        (
            r#"{"error":{"message":"litellm.BadRequestError: input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length","type":null,"code":"400"}}"#,
            200_000,
        ),
        (
            r#"{"errors":[{"message":"AiError: This model's maximum context length is 131072 tokens. However, you requested 16000 output tokens","code":8007}],"success":false,"result":{},"messages":[]}"#,
            131_072,
        ),
    } {
        let failure = refusal(400, body.as_bytes());
        assert_eq!(failure.class, overflow(limit), "{body}");
    }
    check(
        400,
        r#"{"errors":{"message":"AiError: Bad input: required properties at '/' are 'prompt'","code":5006},"success":false,"result":{},"messages":[]}"#,
        Class::BadRequest,
        "AiError: Bad input: required properties at '/' are 'prompt'",
    );
}

#[test]
fn windows_that_are_not_named() {
    let none = Class::Overflow { limit: None };
    for body in [
        r#"{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","code":"context_length_exceeded"}}"#,
        r#"{"error":{"message":"Please reduce the length of the messages or completion.","code":"context_length_exceeded"}}"#,
        r#"{"error":"input exceeds maximum context length. 9000 tokens were sent"}"#,
        r#"{"message":"Input is too long for requested model."}"#,
        r#"{"error":{"message":"Invalid request: Input token length too long","type":"invalid_request_error"}}"#,
        r#"{"type":"error","error":{"type":"bad_request_error","message":"invalid params, context window exceeds limit (2013)","http_code":"400"}}"#,
        r#"{"message":"too many tokens: size limit exceeded by 11326 tokens. Try using shorter or fewer inputs."}"#,
        r#"{"error":{"code":"1261","message":"Prompt exceeds max length"}}"#,
        r#"{"error":{"code":"1261","message":"Prompt too long"}}"#,
        r#"{"error":{"code":"1210","message":"tokens in request more than max tokens allowed"}}"#,
    ] {
        assert_eq!(refusal(400, body.as_bytes()).class, none, "{body}");
    }
    assert_eq!(refusal(413, b"too large").class, none);
}

#[test]
fn statuses_that_mean_something_else() {
    check(
        400,
        r#"{"error":{"message":"Failed to call a function. Please adjust your prompt.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"<function=look>"}}"#,
        AWAY,
        "tool_use_failed: Failed to call a function. Please adjust your prompt",
    );
    check(
        403,
        r#"{"error":{"code":403,"message":"The model requires moderation. Your input was flagged for violence","metadata":{"reasons":["violence"]}}}"#,
        Class::BadRequest,
        "The model requires moderation. Your input was flagged for violence",
    );
    check(
        403,
        r#"{"code":"The caller does not have permission to execute the specified operation","error":"Content violates usage guidelines. Team: t, API key ID: k, Model: grok-4-0709, Failed check: SAFETY_CHECK_TYPE_BIO"}"#,
        Class::BadRequest,
        "the caller does not have permission to execute the specified operation: Content violates usage guidelines. Team: t, API key ID: k, Model: grok-4-0709, Failed check: SAFETY_CHECK_TYPE_BIO",
    );
}

#[test]
fn details_of_google_are_read() {
    let body = |quota: &str, delay: &str| {
        format!(
            r#"[{{"error":{{"code":429,"message":"You exceeded your current quota.","status":"RESOURCE_EXHAUSTED","details":[{{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{{"quotaId":"{quota}"}}]}},{{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"{delay}"}}]}}}}]"#
        )
    };
    let minute = body("GenerateRequestsPerMinutePerProjectPerModel", "34.5s");
    let class = Class::RateLimited {
        retry_after_ms: Some(34_500),
    };
    check(
        429,
        &minute,
        class,
        "RESOURCE_EXHAUSTED: You exceeded your current quota.",
    );
    assert_eq!(reported(minute.as_bytes()).unwrap().class, class);
    let day = body("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "34s");
    assert_eq!(refusal(429, day.as_bytes()).class, Class::OutOfQuota);
}

#[test]
fn a_sentence_in_the_place_of_a_parameter_is_shown() {
    check(
        400,
        r#"{"error":{"code":"400","message":"Param Incorrect","param":"tools[0].name must not be empty","type":""}}"#,
        Class::BadRequest,
        "Param Incorrect: tools[0].name must not be empty",
    );
}

#[test]
fn a_limit_of_a_minute_may_have_the_code_of_a_used_up_quota() {
    let body = r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details. For details, see: https://help.aliyun.com/zh/model-studio/error-code#token-limit","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#;
    assert_eq!(refusal(429, body.as_bytes()).class, RATE);
}

#[test]
fn a_limit_of_a_minute_in_mid_stream_is_no_window() {
    let body = r#"{"error":{"message":"Too many tokens, please wait before trying again.","type":"throttling_error"}}"#;
    let class = reported(body.as_bytes()).unwrap().class;
    assert_eq!(class, Class::UNAVAILABLE);
}

#[test]
fn servers_that_speak_the_dialect() {
    check(
        500,
        r#"{"error":{"code":500,"message":"the request exceeds the available context size. try increasing the context size","type":"exceed_context_size_error","n_prompt_tokens":1407,"n_ctx":256}}"#,
        overflow(256),
        "exceed_context_size_error: the request exceeds the available context size. try increasing the context size",
    );
    check(
        404,
        r#"{"error":{"message":"model \"llama9\" not found, try pulling it first","type":"api_error","param":null,"code":null}}"#,
        Class::UnknownModel,
        "api_error: model \"llama9\" not found, try pulling it first",
    );
    check(
        404,
        r#"{"error":"model 'llama9' not found"}"#,
        Class::UnknownModel,
        "model 'llama9' not found",
    );
    check(
        400,
        r#"{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice","type":"BadRequestError","param":null,"code":400}"#,
        Class::BadRequest,
        "badrequesterror: \"auto\" tool choice requires --enable-auto-tool-choice",
    );
    check(
        404,
        r#"{"detail":"Not Found"}"#,
        Class::BadRequest,
        "Not Found",
    );
    check(
        404,
        r#"{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}"#,
        Class::UnknownModel,
        "deploymentnotfound: The API deployment for this resource does not exist",
    );
    check(
        422,
        r#"{"detail":[{"loc":["body","messages",0],"msg":"field required","type":"missing"},{"msg":"extra"}]}"#,
        Class::BadRequest,
        "body.messages.0: field required; extra",
    );
    check(
        401,
        r#"{"statusCode":401,"message":"Access denied due to invalid subscription key."}"#,
        Class::Unauthorised,
        "Access denied due to invalid subscription key",
    );
    check(
        402,
        r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}"#,
        Class::OutOfQuota,
        "invalid_request_error: Insufficient Balance",
    );
    check(
        400,
        r#"[{"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT"}}]"#,
        Class::Unauthorised,
        "invalid_argument: API key not valid",
    );
    check(
        429,
        r#"[{"error":{"code":429,"message":"Quota exceeded","status":"RESOURCE_EXHAUSTED"}}]"#,
        RATE,
        "resource_exhausted: Quota exceeded",
    );
    check(
        400,
        r#"{"error":{"message":"gpt-x is not a valid model ID","code":400}}"#,
        Class::UnknownModel,
        "gpt-x is not a valid model ID",
    );
    check(
        503,
        r#"{"error":{"message":"Provider returned error","code":503,"metadata":{"raw":"{\"error\":\"overloaded\"}","provider_name":"P"}}}"#,
        AWAY,
        "Provider returned error: {\"error\":\"overloaded\"}",
    );
}

#[test]
fn what_is_no_error_of_the_dialect() {
    check(
        502,
        "<html>\n<title>502 Bad Gateway</title></html>",
        AWAY,
        "HTTP 502 with a web page (\"502 Bad Gateway\"); check the address",
    );
    check(429, "slow down", RATE, "HTTP 429: slow down");
    check(500, "", AWAY, "HTTP 500 without a reason");
    check(
        400,
        "{\"error\":{\"mess",
        Class::BadRequest,
        "HTTP 400: {\"error\":{\"mess",
    );
    check(500, r#"{"error":{}}"#, AWAY, "an error without a reason");
    check(400, "{}", Class::BadRequest, "HTTP 400: {}");
    check(408, "[]", AWAY, "HTTP 408: []");
}

#[test]
fn a_status_of_success_with_no_error_in_it_reports_none() {
    for body in rows! {
        "", "{}", "[]", "7", r#"{"id":"x","object":"chat.completion"}"#, r#"{"errors":[]}"#,
        r#"{"status":"completed","error":null}"#,
    } {
        assert_eq!(reported(body.as_bytes()), None, "{body}");
    }
}

#[test]
fn keys_and_control_characters_are_not_passed_on() {
    let failure = refusal(
        401,
        br#"{"error":{"message":"bad key sk-proj-AbCdEfGhIjKlMnOpQrStUvWx\u0007\n given"}}"#,
    );
    assert!(!failure.reason.contains("AbCdEf"), "{failure:?}");
    assert!(!failure.reason.contains(char::is_control), "{failure:?}");
    let long = format!(r#"{{"error":"{}"}}"#, "x".repeat(9_000));
    assert!(refusal(400, long.as_bytes()).reason.chars().count() <= 301);
}

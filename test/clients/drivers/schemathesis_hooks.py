"""What schemathesis has to know beside the description: which models there are. Without that it gets 404 everywhere."""
import schemathesis

CHAT, EMBED = "smollm2:135m", "all-minilm"
OTHERS = ("/api/create", "/api/copy", "/api/delete")


@schemathesis.hook
def map_body(context, body):
    path = context.operation.path
    if isinstance(body, dict) and isinstance(body.get("model"), str) and path not in OTHERS:
        body["model"] = EMBED if "embed" in path else CHAT
    return body


@schemathesis.hook
def map_path_parameters(context, parameters):
    if parameters and "model" in parameters:
        parameters["model"] = CHAT
    return parameters

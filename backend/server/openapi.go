package server

import (
	_ "embed"
	"net/http"
)

// openapiFile describes the public port for programs. A test holds it to the routes, and schemathesis the answers to it.
//
//go:embed openapi.json
var openapiFile []byte

func openapi(w *response, _ *http.Request) error {
	return w.send(http.StatusOK, jsonType, openapiFile)
}

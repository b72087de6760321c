package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	pkgHTTP "github.com/apache/apisix-go-plugin-runner/pkg/http"
)

// fields are those of a request without a gateway.
type fields struct{ http.Header }

func (f fields) View() http.Header { return f.Header }

// request is a request with these fields; other methods panic.
type request struct {
	pkgHTTP.Request
	fields fields
}

func (r request) Header() pkgHTTP.Header { return r.fields }

func TestRequestsNeedTheField(t *testing.T) {
	plugin := &Plugin{}
	conf, err := plugin.ParseConf([]byte(`{"header": "X-Tenant"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tenant string
		status int
		marked string
	}{{"a", http.StatusOK, "my-plugin"}, {"", http.StatusForbidden, ""}} {
		r := request{fields: fields{http.Header{}}}
		r.fields.Set("X-Tenant", c.tenant)
		w := httptest.NewRecorder()
		plugin.RequestFilter(conf, w, r)
		if w.Code != c.status || r.fields.Get("X-Checked-By") != c.marked {
			t.Errorf("%q: %d, %q", c.tenant, w.Code, r.fields.Get("X-Checked-By"))
		}
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	for _, faulty := range []string{"", "{}", `{"header": 1}`} {
		if _, err := (&Plugin{}).ParseConf([]byte(faulty)); err == nil {
			t.Errorf("%s is accepted", faulty)
		}
	}
}

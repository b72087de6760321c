"""Reads the OpenAPI document of a running node and has it judged by openapi-spec-validator.

Usage: validate_document.py ADMIN_URL ADMIN_KEY
"""

import json
import sys
import urllib.request

from openapi_spec_validator import OpenAPIV31SpecValidator


def main(url: str, key: str) -> None:
    request = urllib.request.Request(f"{url}/apisix/admin/openapi.json", headers={"X-API-KEY": key})
    with urllib.request.urlopen(request, timeout=30) as answer:
        document = json.load(answer)
    faults = [f"{'/'.join(map(str, fault.absolute_path))}: {fault.message[:300]}"
              for fault in OpenAPIV31SpecValidator(document).iter_errors()]
    if faults:
        sys.exit("\n".join(faults))
    print(f"{len(document['paths'])} paths")
    print("done")


main(*sys.argv[1:3])

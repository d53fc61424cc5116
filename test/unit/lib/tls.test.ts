/** TLS faults in words, from the codes that Node.js gives. */

import { expect, test } from 'vitest'
import { tlsFault } from '#lib/tls.ts'

const coded = (code: string) => Object.assign(new Error('text of a library'), { code })

test.each([
  ['SELF_SIGNED_CERT_IN_CHAIN', /authority/, /NODE_EXTRA_CA_CERTS/],
  ['CERT_HAS_EXPIRED', /not valid now/, /Renew/],
  ['ERR_TLS_CERT_ALTNAME_INVALID', /another name/, /name of the certificate/],
  ['ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED', /client certificate/, /THE_FILES/],
  ['ERR_SSL_WRONG_VERSION_NUMBER', /does not speak TLS/, /address/],
])('%s, below other faults, names the problem and the fix', (code, found, advice) => {
  const below = new Error('outer', { cause: new AggregateError([new Error('other'), coded(code)]) })
  const fault = tlsFault(below, 'THE_FILES')
  expect(fault?.found).toMatch(found)
  expect(fault?.found).toContain(code)
  expect(fault?.advice).toMatch(advice)
})

test('a server that is away is no such fault', () => {
  expect(tlsFault(coded('ECONNREFUSED'), 'THE_FILES')).toBeNull()
  expect(tlsFault(null, 'THE_FILES')).toBeNull()
})

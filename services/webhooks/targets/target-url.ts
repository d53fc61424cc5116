/** The address of a target as text in, a URL that the platform may call out. */

import { isIPv6 } from 'node:net'
import { isLinkLocal, isLoopbackHost } from '#lib/hosts.ts'
import type { Place } from './located-yaml.ts'
import type { TargetReading } from './target-reading.ts'

/** Nothing of the address is told: variables may have been filled in. */
export function checkUrl(
  text: string,
  allowInsecure: boolean,
  place: Place,
  reading: TargetReading,
): URL | null {
  const problem = (message: string) => {
    reading.fault(place, message)
    return null
  }
  if (!URL.canParse(text)) return problem('is not a URL: write https://host/path')
  const url = new URL(text)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return problem('must begin with https://')
  if (url.username !== '' || url.password !== '') {
    return problem('holds a user or password: put them into an Authorization header')
  }
  if (url.hash !== '') return problem('has a fragment (#), which is never sent; remove it')
  if (isLinkLocal(host)) return problem('is a link-local address, where machines keep their credentials')
  if (url.protocol === 'http:' && !allowInsecure && !isLoopbackHost(isIPv6(host) ? `[${host}]` : host)) {
    return problem(
      'must begin with https://; for plain HTTP in a network of your own add allow_insecure: true',
    )
  }
  return url
}

/** How the platform's own keys look, so that they can be found in texts that must not hold them. */

/** Agent keys, gateway keys and the first line of a private key. */
export const platformKeys =
  /svc_[0-9a-f]{64}|vk_live_[A-Za-z0-9_-]{43}|-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----/g

/** A courier under kill -9, with 5,000 deliveries on each log. */

import { describeKilledCourier } from '../support/courier-kills.ts'

describeKilledCourier(625)

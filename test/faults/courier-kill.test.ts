/** A courier under kill -9, with 1,600 deliveries on each log. */

import { describeKilledCourier } from '../support/courier-kills.ts'

describeKilledCourier(200)
